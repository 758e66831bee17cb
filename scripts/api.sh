#!/usr/bin/env bash
# The description of the HTTP API (`GET /openapi.json`) beside what the API does, before a primary with two replicas: openapi-spec-validator
# reads the description, and schemathesis makes requests of it, right and wrong, with both keys and without one. An answer that is not described, or a 500, fails.
# Fetches both tools into target/api.
# usage: api.sh UNDERSTUDY    the program, with understudy-lab beside it; API_SECONDS=N for the operator's requests
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?usage: api.sh UNDERSTUDY}")
tools=$PWD/target/api/bin
if ! [ -x "$tools/schemathesis" ]; then
    /usr/bin/python3 -m venv target/api || { echo "api: python3-venv is missing; run: sudo apt-get install python3-venv" >&2; exit 1; }
    "$tools/pip" install --quiet --disable-pip-version-check schemathesis==4.32.5 openapi-spec-validator==0.9.0
fi

stage=api-$$
dir=$(mktemp -d)
server=
ended() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    wait
    "$program" lab down --name "$stage" >/dev/null || true
    rm -rf "$dir"
}
trap ended EXIT
cd "$dir"
"$program" lab up replication --semi-sync --name "$stage" >/dev/null
"$program" lab status --json --name "$stage" | python3 -c '
import json, sys
lab = json.load(sys.stdin)
print("[cluster]\nname = \"shop\"\nid = 5\nkind = \"replication\"")
for node in lab["nodes"]:
    print("[[cluster.node]]\nname = \"{name}\"\naddress = \"{address}\"".format(**node))
print("[cluster.monitor]\nuser = \"understudy\"\npassword = \"understudy\"\n[cluster.replication]\nuser = \"replication\"\npassword = \"replication\"")
print("[listen]\nmysql = \"{0}:6033\"\nhttp = \"{0}:6080\"\n[state]\ndir = \"state\"\n[api]\nread_key_file = \"read.key\"".format(lab["host_address"]))
' >understudy.toml
echo a-key-that-only-reads >read.key
chmod 600 understudy.toml read.key
url=$(sed -n 's/^http = "\(.*\)"/http:\/\/\1/p' understudy.toml)
"$program" serve 2>log &
server=$!
curl --silent --fail --retry 60 --retry-delay 1 --retry-all-errors --output /dev/null "$url/readyz" || { cat log >&2; exit 1; }
curl --silent --fail --output openapi.json "$url/openapi.json"
"$tools/openapi-spec-validator" openapi.json

# Without these, no request would get past "there is no such cluster".
cat >schemathesis.toml <<'END'
[parameters]
"path.id" = "5"
"path.name" = "db2"
END
try() { # seconds, header...: requests with these headers. What has no end is left to the tests, and so is /health, which takes any method.
# Where one key of two is wrong, schemathesis takes the other for ignored: the tests have the keys
    local seconds=$1
    shift
    "$tools/schemathesis" --no-color run "$url/openapi.json" --exclude-path-regex '/(live|slow)$|^/health(/|$)' --checks all --exclude-checks ignored_auth --continue-on-failure \
        --max-examples 50 --max-time "$seconds" --request-timeout 30 --seed "${API_SEED:-$(date +%s)}" "$@"
}
try "${API_SECONDS:-120}" --header "X-Api-Key: $(cat state/api.key)"
try 30 --header "X-Api-Key: $(cat read.key)"
try 30
if grep -E 'panicked|ERROR' log; then exit 1; fi
