#!/usr/bin/env bash
# The tests that come with go-sql-driver, on this server: a line for each, with how it ended. See ../README.md.
set -uo pipefail
# Left out is one that dials an address out in the network. They make their own tables, one after the other, in a schema of their own; the TLS that they try is as the server has it.
export MYSQL_TEST_USER=$CLIENT_USER MYSQL_TEST_PASS=$CLIENT_PASSWORD MYSQL_TEST_PROT=tcp MYSQL_TEST_ADDR=$CLIENT_HOST:$CLIENT_PORT MYSQL_TEST_DBNAME=${CLIENT_SCHEMA}_other
cd "$(mktemp -d)" || exit 1
trap 'rm -rf "$PWD"' EXIT
began=$SECONDS
while true; do
    "$1" -test.v -test.timeout 380s -test.skip '^TestConnectorReturnsTimeout$' 2>&1 | sed -nE 's/^--- (PASS|FAIL|SKIP): ([^ ]+).*/\2: \1/p; s/^(panic: .*)/end: \1/p'
    [ $((SECONDS - began)) -lt "${CLIENT_SECONDS%.*}" ] || break
done
