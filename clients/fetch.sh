#!/usr/bin/env bash
# Fetches and builds the clients of this folder into target/clients: Debian's packages (as root), and the others from their languages' registries, in the
# versions that the files here name. Needs Go, Java 17 or newer with Maven, node with npm, and Rust; says so where one is missing. Takes nothing twice.
# usage: fetch.sh
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
fetched=$(cd .. && pwd)/target/clients
mkdir -p "$fetched"

stop() {
    echo "clients: $*" >&2
    exit 1
}

packages=(python3-venv python3-dev pkg-config libmariadb-dev gcc php-cli php-mysql libdbi-perl libdbd-mysql-perl libdbd-mariadb-perl ruby ruby-mysql2 sysbench mariadb-client)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || stop "not root, and these packages are missing: ${missing[*]}; run: sudo apt-get install ${missing[*]}"
    echo "clients: installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
for tool in go java javac mvn node npm cargo; do
    command -v "$tool" >/dev/null || stop "$tool is missing: apt-get install golang-go default-jdk-headless maven nodejs npm, and Rust from https://rustup.rs"
done

# Whether NAME was made from these files, as they are now.
fresh() { # name, files...
    local name=$1
    shift
    sum=$(cat "$@" | sha256sum)
    [ "$(cat "$fetched/$name.made" 2>/dev/null)" = "$sum" ]
}
made() { # name
    echo "$sum" >"$fetched/$1.made"
}

if ! fresh python python/requirements.txt; then
    rm -rf "$fetched/python"
    /usr/bin/python3 -m venv "$fetched/python"
    "$fetched/python/bin/pip" install --quiet --requirement python/requirements.txt
    made python
fi
if ! fresh node node/package.json node/package-lock.json; then
    rm -rf "$fetched/node"
    mkdir "$fetched/node"
    cp node/package.json node/package-lock.json "$fetched/node/"
    npm ci --silent --no-audit --no-fund --prefix "$fetched/node"
    made node
fi
if ! fresh go go/main.go go/go.mod go/go.sum; then
    (cd go && go build -o "$fetched/go-client" . && go test -c -o "$fetched/go-driver-tests" github.com/go-sql-driver/mysql)
    made go
fi
if ! fresh java java/pom.xml java/*.java; then
    rm -rf "$fetched/jars" "$fetched/java"
    mvn -q -B -f java/pom.xml dependency:copy-dependencies "-DoutputDirectory=$fetched/jars" "-DincludeScope=runtime"
    javac -cp "$fetched/jars/*" -d "$fetched/java" java/*.java
    made java
fi
CARGO_TARGET_DIR=$fetched/rust cargo build --quiet --locked --manifest-path "$here/rust/Cargo.toml"
