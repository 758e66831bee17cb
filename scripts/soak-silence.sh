#!/usr/bin/env bash
# A busy machine must not be taken for a silent node: a real cluster under load through Understudy, on default settings, with three times
# as many busy loops as processors (BUSY_LOOPS), for MINUTES. Ends with 1 when a node was shut out, or the writer moved: with Galera when
# the group changed its view or a node was evicted, too. Prints what happened, and what the load saw. (That a Galera group was hurried is
# no failure: nobody is shut out by it.)
# usage: scripts/soak-silence.sh [MINUTES] [galera|replication]
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-60} kind=${2:-galera}
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "soak-silence.sh: MINUTES is a whole number from 1, not '$minutes'" >&2; exit 2; }
program=${UNDERSTUDY_BIN:-target/dist/understudy}
. scripts/served.sh
serve_cluster "silence-$kind" "$kind"

on() { # a node, and options of the client
    local node=$1
    shift
    mariadb -h "${node%:*}" -P "${node#*:}" -u understudy -punderstudy "$@"
}
views() { # the number of each Galera node's view; of each other server, its read_only and its source
    for node in "${nodes[@]}"; do
        if [ "$kind" = galera ]; then
            on "$node" -NBe "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_conf_id'" | cut -f2
        else
            printf '%s:%s\n' "$(on "$node" -NBe 'SELECT @@read_only')" "$(on "$node" -Ee 'SHOW ALL SLAVES STATUS' | awk '$1 == "Master_Host:" { print $2 }')"
        fi
    done | paste -sd' '
}
until mariadb -h "$side" -P 6133 -u sbtest -psbtest -e 'SELECT 1' sbtest >/dev/null 2>&1; do
    [ "$SECONDS" -lt 120 ] || { cat "$work/serve.log" >&2; exit 1; }
    sleep 0.2
done
before=$(views)
hogs=${BUSY_LOOPS:-$(($(nproc) * 3))}
seconds=$((minutes * 60))
for _ in $(seq "$hogs"); do
    timeout "$seconds" bash -c 'while :; do :; done' &
    pids+=($!)
done
"$program" lab load "$side:6133" --rate 30 --time "$seconds" >"$work/load" 2>"$work/load.log" || true
after=$(views)
journal=$work/serve.log
count() { grep -c "$1" "$journal" || true; }
terms=$(count 'is to write, term')
evicted=$(count 'evict')
tail -n 8 "$work/load"
echo "$minutes min, $hogs busy loops on $(nproc) processors: views $before -> $after; writer decisions $terms, evictions $evicted, hurries $(count 'fell silent'), nodes in doubt $(count 'did not answer')"
if [ "$before" != "$after" ] || [ "$terms" -gt 1 ] || [ "$evicted" -gt 0 ]; then
    echo "soak-silence.sh: a node was shut out, or traffic moved, though nothing had happened" >&2
    grep -E 'is to write|evict|fell silent|is silent|is dead' "$journal" | head -20 >&2
    exit 1
fi
