//! What is on the servers on which random sessions run: tables, routines and the like.

pub const THINGS: &str = "\
    CREATE DATABASE sa; CREATE DATABASE sb; CREATE DATABASE latin CHARACTER SET latin1 COLLATE latin1_german1_ci;
    CREATE ROLE teller; CREATE ROLE clerk; GRANT teller TO app@'%'; GRANT clerk TO app@'%';
    USE shop;
    CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, x BIGINT); CREATE TABLE plain (x BIGINT UNSIGNED);
    CREATE SEQUENCE s NOCACHE; CREATE TABLE made (x INT);
    CREATE PROCEDURE adds() INSERT INTO t (x) VALUES (1);
    CREATE PROCEDURE warns() SELECT CAST('x' AS INT);
    CREATE PROCEDURE makes() CREATE TEMPORARY TABLE IF NOT EXISTS tt (a INT);
    CREATE PROCEDURE speaks() SET NAMES utf8mb4 COLLATE utf8mb4_bin;
    CREATE PROCEDURE tells() SELECT DATABASE(), @a;
    DELIMITER //
    CREATE PROCEDURE fails() BEGIN SET @b = 'set'; SET sort_buffer_size = 77824; INSERT INTO t (x) VALUES (3); SELECT nosuch; END//
    CREATE FUNCTION adding() RETURNS INT BEGIN INSERT INTO t (x) VALUES (1); SET @a = 'added'; RETURN 1; END//
    DELIMITER ;";

/// In each schema.
pub const IN_EACH_SCHEMA: &str = "\
    CREATE TABLE names (v VARCHAR(20));
    INSERT INTO names VALUES (DATABASE()), ('x'), ('\u{e4}');
    CREATE PROCEDURE p(n INT) SELECT n, DATABASE(), (SELECT MAX(v) FROM names);
    CREATE FUNCTION f() RETURNS TEXT RETURN CONCAT((SELECT MIN(v) FROM names), DATABASE())";
