// Carries out clients/operations.json by a JDBC driver and prints one line an operation: Clients mariadb | mysql. See ../README.md.
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.sql.*;
import java.util.*;
import org.json.*;

public class Clients {
    static final String DRIVER_MARIADB = "mariadb";
    static String driver;
    static Connection connection;

    static String given(String name) { return System.getenv("CLIENT_" + name); }

    static boolean isPrepared() { return given("PROTOCOL").equals("prepared"); }

    static void begin(String name) {
        driver = name;
        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8));
    }

    static String url(boolean compress) {
        String url = "jdbc:" + driver + "://" + given("HOST") + ":" + given("PORT") + "/" + given("SCHEMA") + "?useServerPrepStmts=" + isPrepared()
            + "&allowMultiQueries=true&socketTimeout=60000" + tls();
        if (driver.equals(DRIVER_MARIADB))
            return url + "&allowLocalInfile=true&connectionAttributes=app:clients&useCompression=" + compress;
        return url + "&allowLoadLocalInfile=true&connectionAttributes=app:clients&rewriteBatchedStatements=true&useCursorFetch=" + isPrepared() + "&useCompression=" + compress;
    }

    /** Nothing about TLS and keys where the driver is tried with its defaults. */
    static String tls() {
        boolean isMariadb = driver.equals(DRIVER_MARIADB);
        return switch (given("TLS")) {
            case "on" -> "&allowPublicKeyRetrieval=true" + (isMariadb ? "&sslMode=verify-full&serverSslCert=" + given("AUTHORITY") : "&sslMode=REQUIRED");
            case "off" -> "&allowPublicKeyRetrieval=true" + (isMariadb ? "&sslMode=disable" : "&sslMode=DISABLED");
            default -> "";
        };
    }

    static Connection connect(boolean compress) throws SQLException {
        return DriverManager.getConnection(url(compress), given("USER"), given("PASSWORD"));
    }

    static String renew(boolean compress) throws SQLException {
        if (connection != null) connection.close();
        connection = connect(compress);
        return "ok";
    }

    static String digest(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("MD5").digest(bytes));
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    static String shown(Object told) {
        String text = String.valueOf(told).replace("\n", "\\n");
        return text.length() <= 1500 ? text : text.length() + " characters, " + digest(text.getBytes(StandardCharsets.UTF_8));
    }

    static void bind(PreparedStatement statement, List<Object> parameters) throws SQLException {
        for (int i = 1; i <= parameters.size(); i++) {
            String[] part = parameters.get(i - 1).toString().split(":", 2);
            switch (part[0]) {
                case "int" -> statement.setLong(i, Long.parseLong(part[1]));
                case "uint" -> statement.setObject(i, new java.math.BigInteger(part[1]));
                case "float" -> statement.setDouble(i, Double.parseDouble(part[1]));
                case "decimal" -> statement.setBigDecimal(i, new BigDecimal(part[1]));
                case "bytes" -> statement.setBytes(i, HexFormat.of().parseHex(part[1]));
                case "null" -> statement.setNull(i, Types.VARCHAR);
                case "bool" -> statement.setBoolean(i, part[1].equals("true"));
                case "datetime" -> statement.setTimestamp(i, Timestamp.valueOf(part[1]));
                case "date" -> statement.setDate(i, java.sql.Date.valueOf(part[1]));
                default -> statement.setString(i, part[1]);
            }
        }
    }

    static String rows(ResultSet rows) throws SQLException {
        ResultSetMetaData meta = rows.getMetaData();
        StringBuilder told = new StringBuilder();
        for (int i = 1; i <= meta.getColumnCount(); i++)
            told.append(meta.getColumnLabel(i)).append(' ').append(meta.getColumnTypeName(i)).append('(').append(meta.getPrecision(i)).append("),");
        while (rows.next()) {
            told.append(" (");
            for (int i = 1; i <= meta.getColumnCount(); i++) {
                // A value that the driver cannot give as an object is given as bytes.
                Object value;
                try { value = rows.getObject(i); } catch (SQLException error) { value = rows.getBytes(i); }
                told.append(value instanceof byte[] bytes ? HexFormat.of().formatHex(bytes) : String.valueOf(value)).append(',');
            }
            told.append(')');
        }
        return told.toString();
    }

    static String warnings(Statement statement) throws SQLException {
        StringBuilder told = new StringBuilder();
        for (SQLWarning one = statement.getWarnings(); one != null; one = one.getNextWarning())
            told.append(" warning ").append(one.getErrorCode()).append(' ').append(one.getMessage());
        return told.toString();
    }

    /** Every result of a statement that was run: whether the first has rows. */
    static String results(Statement statement, boolean hasRows) throws SQLException {
        StringBuilder told = new StringBuilder();
        while (true) {
            if (hasRows) {
                try (ResultSet rows = statement.getResultSet()) { told.append(rows(rows)); }
            } else {
                int count = statement.getUpdateCount();
                if (count == -1) return told + warnings(statement);
                told.append("affected ").append(count);
            }
            told.append(" ; ");
            hasRows = statement.getMoreResults();
        }
    }

    static String query(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            boolean wantsKeys = sql.startsWith("INSERT") && !sql.contains("RETURNING") && !sql.contains(";");
            boolean hasRows = wantsKeys ? statement.execute(sql, Statement.RETURN_GENERATED_KEYS) : statement.execute(sql);
            String keys = "";
            if (wantsKeys) try (ResultSet rows = statement.getGeneratedKeys()) { keys = "keys " + rows(rows) + " "; }
            return keys + results(statement, hasRows);
        }
    }

    static String execute(String sql, List<Object> parameters) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            bind(statement, parameters);
            return results(statement, statement.execute());
        }
    }

    static String repeat(String sql, List<Object> all) throws SQLException {
        StringBuilder told = new StringBuilder();
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (Object row : all) {
                bind(statement, ((JSONArray) row).toList());
                told.append(results(statement, statement.execute()));
            }
        }
        return told.toString();
    }

    static String batch(String sql, List<Object> all) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (Object row : all) {
                bind(statement, ((JSONArray) row).toList());
                statement.addBatch();
            }
            return Arrays.toString(statement.executeBatch());
        }
    }

    static String read(String sql, int size) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setFetchSize(size);
            try (ResultSet rows = statement.executeQuery()) { return rows(rows); }
        }
    }

    static String call(String name, String parameter) throws SQLException {
        try (CallableStatement statement = connection.prepareCall("{call " + name + "(?, ?)}")) {
            bind(statement, List.of(parameter));
            statement.registerOutParameter(2, Types.INTEGER);
            String told = results(statement, statement.execute());
            return told + " out " + statement.getInt(2);
        }
    }

    static String begin() throws SQLException {
        connection.setAutoCommit(false);
        return "ok";
    }

    static String end(boolean commits) throws SQLException {
        if (commits) connection.commit(); else connection.rollback();
        connection.setAutoCommit(true);
        return "ok";
    }

    static String killed(String sql) throws Exception {
        long id;
        try (Statement statement = connection.createStatement(); ResultSet row = statement.executeQuery("SELECT CONNECTION_ID()")) {
            row.next();
            id = row.getLong(1);
        }
        Thread killer = new Thread(() -> {
            try (Connection other = connect(false); Statement statement = other.createStatement()) {
                while (true) {
                    Thread.sleep(300);
                    try { statement.execute("KILL QUERY " + id); } catch (SQLException error) { /* it may be over */ }
                }
            } catch (SQLException | InterruptedException over) { /* told to end */ }
        });
        killer.start();
        try { return query(sql); } finally { killer.interrupt(); killer.join(); }
    }

    static String timeout(String sql, int seconds) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(seconds);
            return results(statement, statement.execute(sql));
        }
    }

    static String writes(int count, int pause) throws Exception {
        for (int n = 0; n < count; n++) {
            execute("INSERT INTO ledger VALUES (?, ?)", List.of("int:" + n, "int:" + 3 * n));
            Thread.sleep(pause);
        }
        return "ok";
    }

    static String transfers(int count, int pause) throws Exception {
        for (int n = 0; n < count; n++) {
            begin();
            try {
                execute("UPDATE account SET v = v - ? WHERE id = 1", List.of("int:7"));
                Thread.sleep(pause);
                execute("UPDATE account SET v = v + ? WHERE id = 2", List.of("int:7"));
                connection.commit();
            } finally { connection.setAutoCommit(true); }
        }
        return "ok";
    }

    static int level(String name) {
        return name.equals("SERIALIZABLE") ? Connection.TRANSACTION_SERIALIZABLE : Connection.TRANSACTION_READ_COMMITTED;
    }

    static String infile(String sql, String content) throws Exception {
        Files.writeString(Path.of(given("FILE")), content);
        return query(sql);
    }

    static String step(JSONArray step) throws Exception {
        String text = step.length() > 1 ? step.get(1).toString().replace("$SCHEMA", given("SCHEMA")).replace("$OTHER", given("SCHEMA") + "_other").replace("$FILE", given("FILE")) : "";
        List<Object> rest = new ArrayList<>();
        for (int i = 2; i < step.length(); i++) rest.add(step.get(i));
        switch (step.getString(0)) {
            case "new": return renew(false);
            case "compressed": return renew(true);
            case "server": return connection.getMetaData().getDatabaseProductVersion();
            case "query": case "multi": return query(text);
            case "execute": return execute(text, rest);
            case "repeat": return repeat(text, rest);
            case "batch": return batch(text, rest);
            case "stream": return read(text, driver.equals(DRIVER_MARIADB) ? 1 : Integer.MIN_VALUE);
            case "fetch": return read(text, step.getInt(2));
            case "call": return call(text, step.getString(2));
            case "begin": return begin();
            case "commit": return end(true);
            case "rollback": return end(false);
            case "isolation": connection.setTransactionIsolation(level(text)); return "" + connection.getTransactionIsolation();
            case "ping": return "" + connection.isValid(30);
            case "schema": connection.setCatalog(text); return connection.getCatalog();
            case "infile": return infile(text, step.getString(2));
            case "large": String z = "str:" + "z".repeat(step.getInt(1)); return execute("SELECT LENGTH(?), SHA2(?, 256)", List.of(z, z));
            case "killed": return killed(text);
            case "timeout": return timeout(text, step.getInt(2));
            case "writes": return writes(step.getInt(1), step.getInt(2));
            case "transfers": return transfers(step.getInt(1), step.getInt(2));
            case "pause": Thread.sleep(step.getInt(1)); return "ok";
            default: return "no such call";
        }
    }

    public static void main(String[] args) throws Exception {
        begin(args[0]);
        JSONArray operations = new JSONArray(Files.readString(Path.of(given("OPERATIONS"))));
        long until = System.nanoTime() + (long) (Double.parseDouble(given("SECONDS")) * 1e9);
        renew(false);
        for (int round = 0; round == 0 || System.nanoTime() < until; round++)
            for (Object each : operations) {
                JSONObject operation = (JSONObject) each;
                if (!operation.optString("on", given("SERVER")).equals(given("SERVER")) || round > 0 && operation.optBoolean("once")) continue;
                List<String> told = new ArrayList<>();
                for (Object step : operation.getJSONArray("steps")) {
                    try {
                        told.add(shown(step((JSONArray) step)));
                    } catch (BatchUpdateException error) {
                        told.add(shown("error " + error.getErrorCode() + " " + error.getSQLState() + " " + error.getMessage() + Arrays.toString(error.getUpdateCounts())));
                    } catch (SQLException error) {
                        told.add(shown("error " + error.getErrorCode() + " " + error.getSQLState() + " " + error.getMessage()));
                    }
                }
                System.out.println(operation.getString("name") + ": " + String.join(" | ", told));
            }
        connection.close();
    }
}
