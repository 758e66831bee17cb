#!/usr/bin/env bash
# What a statement costs through the proxy: sysbench point selects and read-write transactions against one node of a real Galera
# cluster, through HAProxy in TCP mode and through Understudy in turns, in one run. CPU seconds of the proxy's process per statement,
# since wall time says more of the machine. Writes DIRECTORY/proxy.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: bench-proxy.sh DIRECTORY [SECONDS [ROUNDS]]}
seconds=${2:-8}
rounds=${3:-3}
program=target/release/understudy
mkdir -p "$out"
. scripts/served.sh
serve_cluster bench-proxy
db1=${nodes[0]}
cat >"$work/haproxy.cfg" <<CFG
global
    nbthread 2
    maxconn 2000
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen mysql
    bind $side:6134
    server db1 $db1
CFG
haproxy -f "$work/haproxy.cfg" -db >"$work/haproxy.log" 2>&1 &
haproxy=$!
pids+=("$haproxy")

bench() { # port, test, threads, what
    sysbench "$2" --mysql-host="$side" --mysql-port="$1" --mysql-user=sbtest --mysql-password=sbtest --mysql-db=sbtest --tables=1 \
        --table-size=10000 --threads="$3" --time="$seconds" --db-ps-mode=disable "$4"
}
until bench 6133 oltp_point_select 1 prepare >"$work/prepare" 2>&1; do
    [ $((SECONDS)) -lt 90 ] || { cat "$work/prepare" "$work/serve.log" >&2; exit 1; }
    sleep 0.5
done

ticks=$(getconf CLK_TCK)
cpu() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
cost() { # process, port, test, threads: CPU microseconds a statement
    local before after queries
    before=$(cpu "$1")
    queries=$(bench "$2" "$3" "$4" run | awk '/^ *total: / { print $2 }')
    after=$(cpu "$1")
    awk -v t=$((after - before)) -v hz="$ticks" -v q="$queries" 'BEGIN { printf "%.2f\n", t / hz * 1e6 / q }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
{
    echo "CPU microseconds of the proxy's process for each statement, median of $rounds rounds of $seconds s, in turns"
    printf '%-22s %8s %12s %12s %8s\n' test clients HAProxy Understudy ratio
    for test in oltp_point_select oltp_read_write; do
        for threads in 8 64; do
            : >"$work/h"
            : >"$work/u"
            for _ in $(seq "$rounds"); do
                cost "$haproxy" 6134 "$test" "$threads" >>"$work/h"
                cost "$serving" 6133 "$test" "$threads" >>"$work/u"
            done
            h=$(median <"$work/h")
            u=$(median <"$work/u")
            printf '%-22s %8s %12s %12s %8s\n' "$test" "$threads" "$h" "$u" "$(awk -v a="$u" -v b="$h" 'BEGIN { printf "%.2f", a / b }')"
        done
    done
} | tee "$out/proxy.txt"
