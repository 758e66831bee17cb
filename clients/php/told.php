<?php
// Carries out clients/operations.json by a driver of PHP and prints one line an operation. The drivers' own calls are in the programs beside this file. See ../README.md.

function given(string $name): string { return getenv("CLIENT_$name"); }

function is_prepared(): bool { return given("PROTOCOL") === "prepared"; }

/** A parameter "KIND:TEXT" as a value of PHP. */
function value(string $text): mixed {
    [$kind, $rest] = explode(":", $text, 2);
    return match ($kind) {
        "int" => (int) $rest,
        "float" => (float) $rest,
        "bytes" => hex2bin($rest),
        "null" => null,
        "bool" => $rest === "true",
        default => $rest,
    };
}

function shown(mixed $told): string {
    $text = is_string($told) ? $told : json_encode($told, JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE | JSON_PRESERVE_ZERO_FRACTION);
    $text = str_replace("\n", "\\n", $text);
    return strlen($text) <= 1500 ? $text : strlen($text) . " bytes, " . md5($text);
}

function filled(mixed $part): mixed {
    if (is_array($part)) return array_map("filled", $part);
    return is_string($part) ? strtr($part, ['$SCHEMA' => given("SCHEMA"), '$OTHER' => given("SCHEMA") . "_other", '$FILE' => given("FILE")]) : $part;
}

/** What is the same with every driver, over query() and execute(). */
abstract class Common {
    function pause(int $milliseconds): string { usleep(1000 * $milliseconds); return "ok"; }

    function isolation(string $level): mixed { return $this->query("SET SESSION TRANSACTION ISOLATION LEVEL $level"); }

    function large(int $size): mixed { return $this->execute("SELECT LENGTH(?), SHA2(?, 256)", "str:" . str_repeat("z", $size), "str:" . str_repeat("z", $size)); }

    function infile(string $sql, string $content): mixed { file_put_contents(given("FILE"), $content); return $this->query($sql); }

    function batch(string $sql, array ...$rows): int { foreach ($rows as $row) $this->execute($sql, ...$row); return count($rows); }

    function writes(int $count, int $milliseconds): string {
        for ($n = 0; $n < $count; $n++) {
            $this->execute("INSERT INTO ledger VALUES (?, ?)", "int:$n", "int:" . 3 * $n);
            $this->pause($milliseconds);
        }
        return "ok";
    }

    function transfers(int $count, int $milliseconds): string {
        for ($n = 0; $n < $count; $n++) {
            $this->begin();
            $this->execute("UPDATE account SET v = v - ? WHERE id = 1", "int:7");
            $this->pause($milliseconds);
            $this->execute("UPDATE account SET v = v + ? WHERE id = 2", "int:7");
            $this->commit();
        }
        return "ok";
    }
}

function run(Common $client): void {
    $operations = json_decode(file_get_contents(given("OPERATIONS")), true);
    $until = microtime(true) + (float) given("SECONDS");
    $client->new();
    for ($round = 0; $round === 0 || microtime(true) < $until; $round++) {
        foreach ($operations as $operation) {
            if (($operation["on"] ?? given("SERVER")) !== given("SERVER") || ($round > 0 && ($operation["once"] ?? false))) continue;
            $told = [];
            foreach ($operation["steps"] as $step) {
                $word = array_shift($step);
                try {
                    $told[] = method_exists($client, $word) ? shown($client->$word(...filled($step))) : "no such call";
                } catch (Exception $error) {
                    $told[] = shown("error " . $error->getCode() . " " . $client->state($error) . " " . $error->getMessage());
                }
            }
            echo $operation["name"], ": ", implode(" | ", $told), "\n";
        }
    }
}
