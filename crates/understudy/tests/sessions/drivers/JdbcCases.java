// The cases of main.rs with a JDBC driver: URL USER PASSWORD CASE FIRST-ID. Each call's outcome is a line; at NOW the test does its part.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Scanner;

public class JdbcCases {
    interface Call { Object run() throws SQLException; }

    static String[] args;
    static final Scanner INPUT = new Scanner(System.in);

    static Connection connect() throws SQLException {
        return DriverManager.getConnection(args[0], args[1], args[2]);
    }

    static void told(String what, Call call) {
        try {
            System.out.println(what + ": " + call.run());
        } catch (SQLException error) {
            System.out.println(what + ": error " + error.getErrorCode());
        }
    }

    static void now() {
        System.out.println("NOW");
        INPUT.nextLine();
    }

    static Object insert(Connection connection, int at) throws SQLException {
        try (var statement = connection.prepareStatement("INSERT INTO d VALUES (?, ?)")) {
            statement.setInt(1, Integer.parseInt(args[4]) + at);
            statement.setString(2, "it's");
            return statement.executeUpdate();
        }
    }

    static Object one(Connection connection, String sql, String parameter) throws SQLException {
        try (var statement = connection.prepareStatement(sql)) {
            statement.setString(1, parameter);
            ResultSet rows = statement.executeQuery();
            rows.next();
            return rows.getString(1);
        }
    }

    static Object ping(Connection connection) throws SQLException {
        return connection.isValid(30);
    }

    static Object commit(Connection connection) throws SQLException {
        connection.commit();
        return "ok";
    }

    static Object rollback(Connection connection) throws SQLException {
        connection.rollback();
        return "ok";
    }

    static String ownId(Connection connection) throws SQLException {
        try (var statement = connection.createStatement()) {
            ResultSet rows = statement.executeQuery("SELECT CONNECTION_ID()");
            rows.next();
            return rows.getString(1);
        }
    }

    static void lost(boolean pings) throws SQLException {
        Connection one = connect();
        one.setAutoCommit(false);
        told("insert", () -> insert(one, 0));
        now();
        if (pings) {
            told("ping", () -> ping(one));
        }
        told("commit", () -> commit(one));
    }

    static void lostRolledBack() throws SQLException {
        Connection one = connect();
        one.setAutoCommit(false);
        told("insert", () -> insert(one, 0));
        now();
        told("rollback", () -> rollback(one));
        told("insert", () -> insert(one, 1));
        told("commit", () -> commit(one));
    }

    static void killedItself() throws SQLException {
        Connection one = connect();
        String id = ownId(one);
        one.setAutoCommit(false);
        told("insert", () -> insert(one, 0));
        told("kill", () -> one.createStatement().executeUpdate("KILL QUERY " + id));
        told("insert", () -> insert(one, 1));
        told("commit", () -> commit(one));
    }

    static void killedOther() throws SQLException {
        Connection one = connect();
        Connection other = connect();
        String id = ownId(other);
        one.setAutoCommit(false);
        told("insert", () -> insert(one, 0));
        told("kill", () -> one.createStatement().executeUpdate("KILL QUERY " + id));
        told("commit", () -> commit(one));
    }

    static void defaults() throws SQLException {
        Connection first = connect();
        told("insert", () -> insert(first, 0));
        first.close();
        Connection second = connect();
        second.setAutoCommit(false);
        told("insert", () -> insert(second, 1));
        told("commit", () -> commit(second));
        second.close();
    }

    static void quote() throws SQLException {
        Connection one = connect();
        told("insert", () -> insert(one, 0));
        find(one);
    }

    static void find(Connection one) {
        for (String name : new String[] {"\\' OR 1=1 -- ", "it's", "a\\"}) {
            told("find", () -> one(one, "SELECT COUNT(*) FROM d WHERE name = ?", name));
            told("back", () -> one(one, "SELECT HEX(?)", name));
        }
    }

    static void moved() throws SQLException {
        Connection one = connect();
        one.setAutoCommit(false);
        told("insert", () -> insert(one, 0));
        told("commit", () -> commit(one));
        now();
        told("ping", () -> ping(one));
        told("insert", () -> insert(one, 1));
        told("ping", () -> ping(one));
        told("commit", () -> commit(one));
    }

    static void movedOpen() throws SQLException {
        Connection one = connect();
        one.setAutoCommit(false);
        told("insert", () -> insert(one, 0));
        now();
        told("insert", () -> insert(one, 1));
        told("commit", () -> commit(one));
        told("insert", () -> insert(one, 2));
        told("rollback", () -> rollback(one));
    }

    static void ownQuotes() throws SQLException {
        Connection one = connect();
        told("set", () -> one.createStatement().executeUpdate("SET sql_mode = 'NO_BACKSLASH_ESCAPES'"));
        now();
        told("insert", () -> insert(one, 0));
        find(one);
    }

    static void readOnly() throws SQLException {
        Connection one = connect();
        one.setReadOnly(true);
        one.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        one.setAutoCommit(false);
        now();
        told("insert", () -> insert(one, 0));
        one.rollback();
        one.setReadOnly(false);
        told("insert", () -> insert(one, 1));
        told("isolation", () -> one(one, "SELECT CONCAT(@@tx_isolation, ?)", ""));
        one.setAutoCommit(true);
        told("insert", () -> insert(one, 2));
    }

    public static void main(String[] given) throws SQLException {
        args = given;
        switch (args[3]) {
            case "lost" -> lost(true);
            case "lost_without_ping" -> lost(false);
            case "lost_rolled_back" -> lostRolledBack();
            case "killed_itself" -> killedItself();
            case "killed_other" -> killedOther();
            case "defaults" -> defaults();
            case "quote" -> quote();
            case "moved" -> moved();
            case "moved_open" -> movedOpen();
            case "own_quotes" -> ownQuotes();
            case "read_only" -> readOnly();
            default -> throw new IllegalArgumentException(args[3]);
        }
    }
}
