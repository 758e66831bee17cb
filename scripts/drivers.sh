#!/usr/bin/env bash
# Runs crates/understudy/tests/sessions/drivers with all of its drivers, which clients/fetch.sh fetches.
# usage: drivers.sh DIRECTORY    a new one: what was told is in its table.txt, the machine and the versions in machine.txt
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: drivers.sh DIRECTORY}
[ ! -e "$out" ] || { echo "drivers: $out is there already: give another name" >&2; exit 1; }
clients/fetch.sh
told=$(mktemp)
trap 'rm -f "$told"' EXIT
UNDERSTUDY_DRIVERS=$PWD/target/clients cargo test --locked -p understudy --test sessions drivers:: -- --nocapture >"$told" 2>&1 || {
    cat "$told" >&2
    exit 1
}
mkdir -p "$out"
grep -E '^(PyMySQL|asyncmy|node|M[ay]|test result)' "$told" >"$out/table.txt"
{
    echo "$(uname -sr), $(nproc) processors; commit $(git rev-parse HEAD 2>/dev/null || echo unknown); $(mariadbd --version)"
    echo "PyMySQL $(dpkg-query -W -f='${Version}' python3-pymysql)"
    grep -hE '^asyncmy|"mariadb":|(mariadb-java-client|mysql-connector-j)<' clients/{python/requirements.txt,node/package.json,java/pom.xml}
} >"$out/machine.txt"
cat "$out/table.txt"
