<?php
// PHP's PDO. See ../README.md.
require __DIR__ . "/told.php";

class Client extends Common {
    private ?PDO $link = null;

    private function connect(array $more = []): PDO {
        $options = [
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => !is_prepared(), PDO::ATTR_STRINGIFY_FETCHES => false,
            PDO::MYSQL_ATTR_LOCAL_INFILE => true, PDO::MYSQL_ATTR_MULTI_STATEMENTS => true,
        ];
        if (given("TLS") === "on") $options[PDO::MYSQL_ATTR_SSL_CA] = given("AUTHORITY");
        $place = "mysql:host=" . given("HOST") . ";port=" . given("PORT") . ";dbname=" . given("SCHEMA") . ";charset=utf8mb4";
        return new PDO($place, given("USER"), given("PASSWORD"), $more + $options);
    }

    function new(array $more = []): string { $this->link = null; $this->link = $this->connect($more); return "ok"; }

    function compressed(): string { return $this->new([PDO::MYSQL_ATTR_COMPRESS => true]); }

    function state(Exception $error): string { return $error instanceof PDOException ? json_encode($error->errorInfo, JSON_INVALID_UTF8_SUBSTITUTE) : ""; }

    function server(): array { return [$this->link->getAttribute(PDO::ATTR_SERVER_VERSION), $this->link->getAttribute(PDO::ATTR_DRIVER_NAME)]; }

    private function read(PDOStatement $statement): array {
        $told = [];
        do {
            $columns = [];
            for ($n = 0; $n < $statement->columnCount(); $n++) {
                $meta = $statement->getColumnMeta($n);
                $columns[] = $meta ? [$meta["name"], $meta["native_type"] ?? "", $meta["flags"]] : "unknown";
            }
            $told[] = $columns ? [$columns, $statement->fetchAll(PDO::FETCH_NUM)] : [$statement->rowCount(), $this->link->lastInsertId()];
        } while ($statement->nextRowset());
        return $told;
    }

    function query(string $sql): array { return $this->read($this->link->query($sql)); }

    function multi(string $sql): array { return $this->query($sql); }

    private function bind(PDOStatement $statement, array $parts): void {
        foreach (array_map("value", $parts) as $n => $one)
            $statement->bindValue($n + 1, $one, match (true) { $one === null => PDO::PARAM_NULL, is_bool($one) => PDO::PARAM_BOOL, is_int($one) => PDO::PARAM_INT, default => PDO::PARAM_STR });
    }

    function execute(string $sql, string ...$parts): array {
        $statement = $this->link->prepare($sql);
        $this->bind($statement, $parts);
        $statement->execute();
        return $this->read($statement);
    }

    function repeat(string $sql, array ...$rows): array {
        $statement = $this->link->prepare($sql);
        $told = [];
        foreach ($rows as $row) {
            $this->bind($statement, $row);
            $statement->execute();
            $told[] = $statement->fetchAll(PDO::FETCH_NUM);
        }
        return $told;
    }

    function stream(string $sql): array {
        $this->link->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
        $rows = [];
        foreach ($this->link->query($sql, PDO::FETCH_NUM) as $row) $rows[] = $row;
        $this->link->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true);
        return $rows;
    }

    function begin(): bool { return $this->link->beginTransaction(); }
    function commit(): bool { return $this->link->commit(); }
    function rollback(): bool { return $this->link->rollBack(); }
    function ping(): string { return $this->link->getAttribute(PDO::ATTR_SERVER_INFO) ? "ok" : "none"; }
}

run(new Client());
