//! What writes is refused on the port for reads, in whatever words it is said; and what was refused has left nothing.

use std::net::SocketAddr;

use fixture::wait::until_async;
use lab::stage::account::APP_SCHEMA;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
use testbed::scene::Scene;
use testbed::writers::connect;

/// Said by a client that wants to write.
const WRITES: &[&str] = &[
    "INSERT INTO tried VALUES (1)",
    "REPLACE INTO tried VALUES (1)",
    "UPDATE tried SET id = 2",
    "DELETE FROM tried",
    "TRUNCATE TABLE tried",
    "CREATE TABLE tried2 (id INT)",
    "CREATE TABLE tried2 AS SELECT 1",
    "ALTER TABLE tried ADD COLUMN x INT",
    "DROP TABLE tried",
    "RENAME TABLE tried TO tried2",
    "CREATE VIEW tried2 AS SELECT 1",
    "CREATE PROCEDURE tried2() SELECT 1",
    "GRANT SELECT ON tried TO nobody@localhost",
    "SELECT NEXTVAL(drawn)",
    "SELECT writes()",
    "DO writes()",
    "START TRANSACTION READ WRITE",
    "SET SESSION TRANSACTION READ WRITE",
    "SET TRANSACTION READ WRITE",
    "SET SESSION tx_read_only = 0",
    "SET @@session.tx_read_only = OFF",
    "SET STATEMENT tx_read_only = 0 FOR INSERT INTO tried VALUES (1)",
    "/*!50000 SET SESSION tx_read_only = 0 */",
    "ANALYZE TABLE tried",
    "OPTIMIZE TABLE tried",
    "SELECT 1 INTO @x; INSERT INTO tried VALUES (1)",
    "LOAD DATA INFILE '/etc/hostname' INTO TABLE tried",
];

/// What hides that it writes; refused where the server could be written.
const HIDDEN: &[&str] = &[
    "CALL lifts()",
    "CALL begins()",
    "EXECUTE IMMEDIATE CONCAT('INSERT INTO tried ', 'VALUES (1)')",
    "BEGIN NOT ATOMIC SET SESSION tx_read_only = 0; INSERT INTO tried VALUES (1); END",
    "BEGIN NOT ATOMIC EXECUTE IMMEDIATE CONCAT('SET tx_read_', 'only = 0'); INSERT INTO tried VALUES (1); END",
];

/// Codes of servers for this: read only, in a read-only transaction, no right, and the parser's for several statements in one.
const CODES: [u16; 8] = [1290, 1792, 1142, 1044, 1227, 1370, 1064, 1045];

pub async fn by_replicas(scene: &Scene, port: SocketAddr) {
    make(scene).await;
    let mut conn = arrived(port).await;
    all_refused(&mut conn, WRITES).await;
    all_refused(&mut conn, HIDDEN).await;
    // A procedure that only reads is no harm there.
    conn.query_drop("CALL looks()").await.unwrap();
    lifted(&mut conn).await;
    nothing_left(scene).await;
    nothing_of_their_own(scene).await;
}

/// Where no server is read only.
pub async fn by_whoever_could_be_written(scene: &Scene, port: SocketAddr) {
    make(scene).await;
    let mut conn = connect(port).await.unwrap();
    all_refused(&mut conn, WRITES).await;
    all_refused(&mut conn, HIDDEN).await;
    lifted(&mut conn).await;
    nothing_left(scene).await;
}

/// What the statements are about.
async fn make(scene: &Scene) {
    for node in ["db1", "db2", "db3"] {
        scene.stage.run_in(node, "SET GLOBAL log_bin_trust_function_creators = 1").await.unwrap();
    }
    for statement in [
        "CREATE TABLE tried (id INT)",
        "CREATE SEQUENCE drawn NOCACHE",
        "CREATE FUNCTION writes() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO tried VALUES (1); RETURN 1; END",
        "CREATE FUNCTION lifting() RETURNS INT DETERMINISTIC BEGIN SET SESSION tx_read_only = 0; RETURN 1; END",
        "CREATE PROCEDURE lifts() BEGIN SET SESSION tx_read_only = 0; INSERT INTO tried VALUES (1); END",
        "CREATE PROCEDURE begins() BEGIN START TRANSACTION READ WRITE; INSERT INTO tried VALUES (1); COMMIT; END",
        "CREATE PROCEDURE looks() SELECT COUNT(*) FROM tried",
    ] {
        let mut conn = connect(scene.through()).await.unwrap();
        conn.query_drop(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

pub async fn by_the_primary(scene: &Scene, port: SocketAddr) {
    let mut conn = connect(port).await.unwrap();
    let server: String = conn.query_first("SELECT @@server_id").await.unwrap().unwrap();
    assert_eq!(server, scene.value("db1", "server_id").await);
    all_refused(&mut conn, WRITES).await;
    all_refused(&mut conn, HIDDEN).await;
    lifted(&mut conn).await;
    conn.reset().await.unwrap();
    all_refused(&mut conn, &WRITES[..3]).await;
    nothing_left(scene).await;
    nothing_of_their_own(scene).await;
}

/// A connection to a replica that has the tables.
async fn arrived(port: SocketAddr) -> Conn {
    until_async("the replicas have the tables", async || {
        let mut conn = connect(port).await.unwrap();
        conn.query_drop("CALL looks()").await.map(|()| conn)
    })
    .await
}

/// A function that makes the session writable: the statement after it is refused all the same.
async fn lifted(conn: &mut Conn) {
    conn.query_drop("SELECT lifting()").await.unwrap();
    all_refused(conn, &WRITES[..3]).await;
    let is: String = conn.query_first("SELECT @@tx_read_only").await.unwrap().unwrap();
    assert_eq!(is, "1");
}

async fn all_refused(conn: &mut Conn, statements: &[&str]) {
    for statement in statements {
        match conn.query_drop(*statement).await {
            Err(Error::Server(error)) if CODES.contains(&error.code) => {
                println!("          {}  {statement}: {}", error.code, error.message);
            }
            other => panic!("{statement}: {other:?}"),
        }
    }
}

/// Nothing was written.
async fn nothing_left(scene: &Scene) {
    for node in ["db1", "db2", "db3"] {
        let rows =
            scene.stage.run_in(node, &format!("SELECT COUNT(*) FROM {APP_SCHEMA}.tried")).await.unwrap();
        assert_eq!(rows[0][0], "0", "{node}");
    }
}

/// No replica has a transaction of its own.
async fn nothing_of_their_own(scene: &Scene) {
    let own = async |node: &str| {
        let state = scene.value(node, "gtid_binlog_state").await;
        let id = scene.value(node, "server_id").await;
        state.split(',').any(|gtid| gtid.split('-').nth(1) == Some(&*id))
    };
    assert!(!own("db2").await && !own("db3").await, "a replica has written something of its own");
}
