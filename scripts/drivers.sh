#!/usr/bin/env bash
# Fetches the drivers that are no Debian packages, and runs crates/understudy/tests/sessions/drivers with all of them. Needs pip, npm, Maven, and Java 17 or newer.
# usage: drivers.sh DIRECTORY    a new one: what was told is in its table.txt, the machine and the versions in machine.txt
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: drivers.sh DIRECTORY}
[ ! -e "$out" ] || { echo "drivers: $out is there already: give another name" >&2; exit 1; }
fetched=$PWD/target/drivers
asyncmy=0.2.18 node_mariadb=3.5.4 mariadb_java=3.5.11 mysql_java=9.7.0
mkdir -p "$fetched"
python3 -m pip install --quiet --upgrade --target "$fetched/python" "asyncmy==$asyncmy"
npm install --silent --no-audit --no-fund --prefix "$fetched" "mariadb@$node_mariadb"
rm -rf "$fetched/jars"
cat >"$fetched/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>drivers</groupId><artifactId>drivers</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.mariadb.jdbc</groupId><artifactId>mariadb-java-client</artifactId><version>$mariadb_java</version></dependency>
    <dependency><groupId>com.mysql</groupId><artifactId>mysql-connector-j</artifactId><version>$mysql_java</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -f "$fetched/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$fetched/jars"
told=$(mktemp)
trap 'rm -f "$told"' EXIT
UNDERSTUDY_DRIVERS=$fetched cargo test --locked -p understudy --test sessions drivers:: -- --nocapture >"$told" 2>&1 || {
    cat "$told" >&2
    exit 1
}
mkdir -p "$out"
grep -E '^(PyMySQL|asyncmy|node|M[ay]|test result)' "$told" >"$out/table.txt"
{
    echo "$(uname -sr), $(nproc) processors; commit $(git rev-parse HEAD 2>/dev/null || echo unknown); $(mariadbd --version)"
    echo "PyMySQL $(dpkg-query -W -f='${Version}' python3-pymysql), asyncmy $asyncmy, node mariadb $node_mariadb," \
        "MariaDB Connector/J $mariadb_java, MySQL Connector/J $mysql_java"
} >"$out/machine.txt"
cat "$out/table.txt"
