#!/usr/bin/env bash
# The clients that come with the servers, and sysbench: client.sh PREFIX DIRECTORY, such as client.sh mariadb /usr/bin, and client.sh sysbench.
# Prints one line a case, as the other programs do for operations.json. See ../README.md.
set -uo pipefail
prefix=$1 directory=${2:-}
other=${CLIENT_SCHEMA}_other
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The password must not be seen in a list of processes.
{
    printf '[client]\nhost=%s\nport=%s\nuser=%s\npassword=%s\n' "$CLIENT_HOST" "$CLIENT_PORT" "$CLIENT_USER" "$CLIENT_PASSWORD"
    case $prefix-$CLIENT_TLS in
        mysql-off) printf 'ssl-mode=DISABLED\nget-server-public-key\n' ;;
        mysql-on) printf 'ssl-mode=VERIFY_CA\nssl-ca=%s\n' "$CLIENT_AUTHORITY" ;;
        *-off) printf 'skip-ssl\n' ;;
        *-on) printf 'ssl-ca=%s\n' "$CLIENT_AUTHORITY" ;;
    esac
} >"$work/options.cnf"
chmod 600 "$work/options.cnf"

told() { # case, exit code; what it said is in $work/said
    local said
    said=$(sed -E "s#$work#WORK#g" "$work/said" | tr '\n' '~' | tr -d '\0')
    [ ${#said} -le 1500 ] || said="${#said} characters, $(md5sum <"$work/said" | cut -c 1-32)"
    printf '%s: exit code %s %s\n' "$1" "$2" "$said"
}
run() { # case, program without its prefix, arguments...: standard input is read
    local name=$1 program=$2
    shift 2
    "$directory/$program" --defaults-file="$work/options.cnf" "$@" >"$work/said" 2>&1
    told "$name" $?
}
client() { # case, arguments...
    local name=$1
    shift
    run "$name" "$prefix" --default-character-set=utf8mb4 "$@" "$CLIENT_SCHEMA"
}

tools() {
    client "statements of a file" --comments <<'SQL'
DROP TABLE IF EXISTS tool;
CREATE TABLE tool (id INT PRIMARY KEY, v VARCHAR(40), b BLOB, d DECIMAL(10,2), t DATETIME(3));
INSERT INTO tool VALUES (1, 'café 漢字 😀', x'00FF27', 1.50, '2024-02-29 12:34:56.789'), (2, NULL, NULL, NULL, NULL);
/* a comment */ SELECT * FROM tool; -- and another
DELIMITER //
DROP PROCEDURE IF EXISTS tooled//
CREATE PROCEDURE tooled() BEGIN SELECT 1; SELECT 2, 3; END//
DELIMITER ;
CALL tooled();
USE information_schema
SELECT DATABASE();
SQL
    client "as a table, with warnings" --table --show-warnings -e "SELECT id, v, HEX(b), d, t FROM tool; SELECT CAST('1x' AS SIGNED); SELECT 2"
    client "as XML, unbuffered" --xml --quick -e "SELECT id, v FROM tool ORDER BY id"
    client "vertical" --vertical -e "SELECT * FROM tool WHERE id = 1"
    client "an error ends it" -e "SELECT 1; SELECT * FROM absent; SELECT 2"
    client "an error passed over" --force -e "SELECT 1; SELECT * FROM absent; SELECT 2"
    client "column types" --column-type-info -e "SELECT id, v, d FROM tool WHERE id = 1"
    printf '3,three\n4,\\N\n' >"$work/local.csv"
    client "LOAD DATA LOCAL" --local-infile=1 -e "LOAD DATA LOCAL INFILE '$work/local.csv' INTO TABLE tool FIELDS TERMINATED BY ',' (id, v); SELECT id, v FROM tool ORDER BY id"
    "$directory/$prefix" --defaults-file="$work/options.cnf" "$CLIENT_SCHEMA" -e '\s' 2>&1 | grep -E '^(SSL|Cipher|TLS)' | sed 's/ with.*//' >"$work/said"
    told "TLS as the client sees it" 0
    local dump=("$directory/${prefix}dump") import=("$directory/${prefix}import") slap=("$directory/${prefix}slap")
    if [ "$prefix" = mariadb ]; then dump=("$directory/mariadb-dump") import=("$directory/mariadb-import") slap=("$directory/mariadb-slap"); fi
    local more=()
    [ "$prefix" = mariadb ] || more=(--set-gtid-purged=OFF --no-tablespaces --column-statistics=0)
    "${dump[@]}" --defaults-file="$work/options.cnf" --single-transaction --routines --hex-blob --skip-dump-date --skip-comments "${more[@]}" "$CLIENT_SCHEMA" tool >"$work/dump.sql" 2>"$work/said"
    local code=$?
    sed -E "s/$CLIENT_SCHEMA/SCHEMA/g" "$work/dump.sql" >>"$work/said"
    told "dump, --single-transaction" $code
    "$directory/$prefix" --defaults-file="$work/options.cnf" --default-character-set=utf8mb4 "$other" <"$work/dump.sql" >"$work/said" 2>&1
    told "the dump read again" $?
    printf '5\tfive\n6\tsix\n' >"$work/tool.txt"
    "${import[@]}" --defaults-file="$work/options.cnf" --local --columns=id,v "$other" "$work/tool.txt" >"$work/said" 2>&1
    told "import" $?
    "$directory/$prefix" --defaults-file="$work/options.cnf" --default-character-set=utf8mb4 "$other" -e "SELECT id, v FROM tool ORDER BY id" >"$work/said" 2>&1
    told "what was imported" $?
    "${slap[@]}" --defaults-file="$work/options.cnf" --concurrency=4 --iterations=3 --number-of-queries=200 --no-drop --create-schema="$CLIENT_SCHEMA" \
        --query="SELECT COUNT(*) FROM tool; INSERT INTO tool (id) VALUES (100) ON DUPLICATE KEY UPDATE d = 1" --delimiter=';' >"$work/slap" 2>&1
    code=$?
    grep -iE 'error|cannot' "$work/slap" >"$work/said"
    told "slap" $code
}

sysbench_run() { # case, prepared statements: disable or auto
    # sysbench 1.0 uses TLS only with a certificate of its own, from an authority that the server knows.
    if [ "$CLIENT_TLS" = on ]; then
        echo "no such call" >"$work/said"
        told "$1" 0
        sleep 1
        return
    fi
    local common=(--mysql-host="$CLIENT_HOST" --mysql-port="$CLIENT_PORT" --mysql-user="$CLIENT_USER" --mysql-password="$CLIENT_PASSWORD" --mysql-db="$CLIENT_SCHEMA"
        --db-ps-mode="$2" --tables=2 --table-size=500 --threads=4 --mysql-ignore-errors=1213,1205,1020)
    local step
    for step in cleanup prepare run; do
        # The option is the password's place; there is no other in sysbench 1.0.
        (cd "$work" && sysbench oltp_read_write "${common[@]}" --time=4 "$step") >"$work/out" 2>&1
        code=$?
        grep -E 'FATAL|reconnects' "$work/out" | sed -E 's/\([0-9.]+ per sec.\)//; s/ +/ /g' >"$work/said"
        told "$1, $step" $code
    done
}

began=$SECONDS
while true; do
    case $prefix in
        sysbench) sysbench_run "oltp_read_write" "$([ "$CLIENT_PROTOCOL" = prepared ] && echo auto || echo disable)" ;;
        *) tools ;;
    esac
    [ $((SECONDS - began)) -lt "${CLIENT_SECONDS%.*}" ] || break
done
