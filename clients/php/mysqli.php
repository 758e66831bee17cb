<?php
// PHP's mysqli. See ../README.md.
require __DIR__ . "/told.php";
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

class Client extends Common {
    private ?mysqli $link = null;

    private function connect(int $flags = 0): mysqli {
        $link = mysqli_init();
        $link->options(MYSQLI_OPT_LOCAL_INFILE, true);
        if (given("TLS") === "on") {
            $link->ssl_set(null, null, given("AUTHORITY"), null, null);
            $flags |= MYSQLI_CLIENT_SSL;
        }
        $link->real_connect(given("HOST"), given("USER"), given("PASSWORD"), given("SCHEMA"), (int) given("PORT"), null, $flags);
        $link->set_charset("utf8mb4");
        return $link;
    }

    function new(int $flags = 0): string { $this->link?->close(); $this->link = null; $this->link = $this->connect($flags); return "ok"; }

    function compressed(): string { return $this->new(MYSQLI_CLIENT_COMPRESS); }

    function state(Exception $error): string { return $error instanceof mysqli_sql_exception ? $error->getSqlState() : ""; }

    function server(): array { return [$this->link->server_info, $this->link->server_version, $this->link->protocol_version]; }

    private function read(mysqli_result|bool $result): array {
        $counts = [$this->link->affected_rows, $this->link->insert_id, $this->link->info, $this->link->warning_count];
        if (is_bool($result)) return $counts;
        $columns = array_map(fn($field) => [$field->name, $field->orgtable, $field->type, $field->flags, $field->charsetnr], $result->fetch_fields());
        return [$columns, $result->fetch_all(), $counts];
    }

    function query(string $sql): array { return $this->read($this->link->query($sql)); }

    function multi(string $sql): array {
        $told = [];
        $this->link->multi_query($sql);
        do { $told[] = $this->read($this->link->store_result()); } while ($this->link->more_results() && $this->link->next_result());
        return $told;
    }

    /** Prepared at the server; mysqli knows no other parameters, so that "text" puts them into the text. */
    function execute(string $sql, string ...$parts): array {
        $values = array_map("value", $parts);
        if (!is_prepared()) {
            $quoted = array_map(fn($one) => match (true) { $one === null => "NULL", is_string($one) => "'" . $this->link->real_escape_string($one) . "'", default => var_export($one, true) }, $values);
            return $this->query(preg_replace_callback('/\?/', function () use (&$quoted) { return array_shift($quoted); }, $sql));
        }
        $statement = $this->link->prepare($sql);
        $types = implode("", array_map(fn($one) => is_int($one) || is_bool($one) ? "i" : (is_float($one) ? "d" : "s"), $values));
        if ($values) $statement->bind_param($types, ...$values);
        $statement->execute();
        $result = $statement->get_result();
        $told = $result ? $result->fetch_all() : [$statement->affected_rows, $statement->insert_id];
        $statement->close();
        return $told;
    }

    function repeat(string $sql, array ...$rows): array {
        if (!is_prepared()) return array_map(fn($row) => $this->execute($sql, ...$row), $rows);
        $statement = $this->link->prepare($sql);
        $told = [];
        foreach ($rows as $row) {
            $statement->execute(array_map("value", $row));
            $told[] = $statement->get_result()->fetch_all();
        }
        return $told;
    }

    function stream(string $sql): array {
        $result = $this->link->query($sql, MYSQLI_USE_RESULT);
        $rows = [];
        while ($row = $result->fetch_row()) $rows[] = $row;
        $result->free();
        return $rows;
    }

    /** A cursor at the server, one row at a time. */
    function fetch(string $sql, int $size): mixed {
        $statement = $this->link->prepare($sql);
        $statement->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
        $statement->attr_set(MYSQLI_STMT_ATTR_PREFETCH_ROWS, 1);
        $statement->execute();
        $statement->bind_result($one, $two);
        $rows = [];
        while (count($rows) < 500 && ($is_row = $statement->fetch())) $rows[] = [$one, $two];
        if ($is_row === false) throw new mysqli_sql_exception($statement->error, $statement->errno);
        $statement->close();
        return $rows;
    }

    function begin(): string { $this->link->begin_transaction(); return "ok"; }
    function commit(): string { $this->link->commit(); return "ok"; }
    function rollback(): string { $this->link->rollback(); return "ok"; }
    function ping(): bool { return @$this->link->ping(); }
    function schema(string $name): bool { return $this->link->select_db($name); }
    function user(string $name): bool { return $name === "wrong" ? $this->link->change_user(given("USER"), "wrong", given("SCHEMA")) : $this->link->change_user($name, given("PASSWORD"), given("SCHEMA")); }

    /** The statement runs while the other connection kills it, again and again until it is over. */
    function killed(string $sql): mixed {
        $other = $this->connect();
        $id = $this->link->query("SELECT CONNECTION_ID()")->fetch_row()[0];
        $this->link->query($sql, MYSQLI_ASYNC);
        do {
            $this->pause(300);
            try { $other->query("KILL QUERY $id"); } catch (mysqli_sql_exception) { }
            $read = $error = $reject = [$this->link];
        } while (!mysqli_poll($read, $error, $reject, 0, 100000));
        $other->close();
        return $this->read($this->link->reap_async_query());
    }
}

run(new Client());
