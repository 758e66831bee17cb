#!/usr/bin/env bash
# What clients take of Understudy's memory: so many idle ones that have asked one thing each, plain and under TLS (resident KiB each, without the sockets in
# the kernel; and the descriptors that are left when they have gone); and by how much it grows at the most while a large result, or a file of LOAD DATA
# LOCAL, passes through, plain, under TLS, and compressed. One node of the lab. Writes DIRECTORY/memory.txt; ends with 1 where an idle client takes
# more than 40 KiB, a descriptor is left, or memory grows by more than 64 MiB.
# usage: scripts/bench-memory.sh DIRECTORY [CLIENTS [RESULT_MIB [FILE_MIB]]]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: bench-memory.sh DIRECTORY [CLIENTS [RESULT_MIB [FILE_MIB]]]}
count=${2:-10000} result_mib=${3:-2048} file_mib=${4:-1024}
program=${UNDERSTUDY_BIN:-target/dist/understudy}
examples=${EXAMPLES_DIR:-target/release/examples}
[ -n "${EXAMPLES_DIR:-}" ] || cargo build --release --locked --quiet -p fixture --examples
mkdir -p "$out"
# A client's socket, the link to its node, and a handle to cut that by.
ulimit -n $((count * 3 + 2000))
. scripts/served.sh
serve_cluster bench-memory galera --nodes 1 --server-option "max_connections=$((count + 200))"
sed -i "s/^\[listen\]/[proxy]\nclient_connections_max = $((count + 100))\n&/" "$work/understudy.toml"
until_it_serves 6133 prepare "$work/serve.log"
kill "$serving"
wait "$serving" 2>/dev/null || true
"$program" serve --config "$work/understudy.toml" >"$work/serve.log" 2>&1 &
serving=$!
pids+=("$serving")
until_it_serves 6133 run "$work/serve.log"
certificate=$work/state/https.crt
mariadb -h "${nodes[0]%:*}" -P "${nodes[0]#*:}" -u sbtest -psbtest sbtest -e 'CREATE TABLE bulk (n BIGINT)'

kib() { awk -v which="$1:" '$1 == which { print $2 }' "/proc/$serving/status"; }
files() { find "/proc/$serving/fd" -mindepth 1 | wc -l; }
failed=0
above() { # a value, its limit
    [ "$1" -le "$2" ] || { printf '   ABOVE %s' "$2"; failed=1; }
}
mkfifo "$work/held"
hold() { # protocol, clients: until `let_go`
    "$examples/clients" "$side:6133" "$1" "$certificate" "$2" idle <"$work/held" >"$work/said" &
    held=$!
    exec 9>"$work/held"
    until grep -q idle "$work/said"; do
        kill -0 "$held" 2>/dev/null || { echo "bench-memory: the clients have ended" >&2; exit 1; }
        sleep 0.2
    done
    # What logins took goes back to the system meanwhile.
    sleep 15
}
let_go() { # descriptors before
    exec 9>&-
    wait "$held"
    local begun=$SECONDS
    until [ "$(files)" -le "$1" ] || [ $((SECONDS - begun)) -ge 30 ]; do sleep 0.2; done
}
idle() {
    local before files_before with
    # What is allocated once is allocated by then.
    hold "$1" 50
    files_before=$(files)
    let_go $((files_before - 100))
    files_before=$(files)
    before=$(kib VmRSS)
    hold "$1" "$count"
    with=$(kib VmRSS)
    let_go "$files_before"
    each=$(awk -v a="$with" -v b="$before" -v n="$count" 'BEGIN { printf "%.1f", (a - b) / n }')
    printf '%s idle clients, %-5s: %6s KiB each; %s descriptors before, %s after they have gone' "$count" "$1" "$each" "$files_before" "$(files)"
    above "${each%.*}" 40
    above "$(files)" "$files_before"
    echo
}
bulk() { # way, result or file, MiB
    local before
    echo 5 >"/proc/$serving/clear_refs" # VmHWM begins anew
    before=$(kib VmRSS)
    local begun=$EPOCHREALTIME
    "$examples/bulk" "$side:6133" "$certificate" "$1" "$2" "$3"
    printf '%s of %s MiB, %-8s: %6s KiB more at the most, %5.1f s' "$2" "$3" "$1" "$(($(kib VmHWM) - before))" "$(awk -v a="$EPOCHREALTIME" -v b="$begun" 'BEGIN { print a - b }')"
    above "$(($(kib VmHWM) - before))" 65536
    echo
}
{
    for protocol in plain tls; do idle "$protocol"; done
    for what in "result $result_mib" "file $file_mib"; do
        # shellcheck disable=SC2086 # two words
        for way in plain tls zlib zstd tls-zlib tls-zstd; do bulk "$way" $what; done
    done
    exit "$failed"
} > >(tee "$out/memory.txt")
