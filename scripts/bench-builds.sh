#!/usr/bin/env bash
# CPU microseconds a statement of two builds of Understudy, in turns in one run in front of one cluster: point selects and read-write
# transactions, 8 and 64 clients. The order within a round alternates. Prints the medians and the median of the rounds' ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
before=${1:?usage: bench-builds.sh PROGRAM_BEFORE PROGRAM_AFTER [SECONDS [ROUNDS]]}
program=${2:?usage: bench-builds.sh PROGRAM_BEFORE PROGRAM_AFTER [SECONDS [ROUNDS]]}
seconds=${3:-6}
rounds=${4:-7}
. scripts/served.sh
serve_cluster bench-builds
sed -e "s/^id = 1/id = 2/" -e "s/:6133\"/:6143\"/" -e "s/:6180\"/:6190\"/" -e "s|/state\"|/state2\"|" "$work/understudy.toml" >"$work/before.toml"
"$before" serve --config "$work/before.toml" >"$work/before.log" 2>&1 &
serving_before=$!
pids+=("$serving_before")

bench() { # port, test, threads, what, seconds
    sysbench "$2" --mysql-host="$side" --mysql-port="$1" --mysql-user=sbtest --mysql-password=sbtest --mysql-db=sbtest --tables=1 \
        --table-size=10000 --threads="$3" --time="$5" --db-ps-mode=disable "$4"
}
until bench 6133 oltp_point_select 1 prepare 1 >"$work/prepare" 2>&1; do
    [ "$SECONDS" -lt 90 ] || { cat "$work/prepare" "$work/serve.log" >&2; exit 1; }
    sleep 0.5
done
until bench 6143 oltp_point_select 1 run 1 >"$work/prepare" 2>&1; do
    [ "$SECONDS" -lt 90 ] || { cat "$work/prepare" "$work/before.log" >&2; exit 1; }
    sleep 0.5
done

ticks=$(getconf CLK_TCK)
cpu() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
cost() { # process, port, test, threads
    local used queries
    used=$(cpu "$1")
    queries=$(bench "$2" "$3" "$4" run "$seconds" | awk '/^ *total: / { print $2 }')
    awk -v t=$(($(cpu "$1") - used)) -v hz="$ticks" -v q="$queries" 'BEGIN { printf "%.3f\n", t / hz * 1e6 / q }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

printf '%-22s %8s %10s %10s %8s\n' test clients before after ratio
for test in oltp_point_select oltp_read_write; do
    for threads in 8 64; do
        : >"$work/both"
        for round in $(seq "$rounds"); do
            if [ $((round % 2)) = 0 ]; then
                b=$(cost "$serving_before" 6143 "$test" "$threads")
                a=$(cost "$serving" 6133 "$test" "$threads")
            else
                a=$(cost "$serving" 6133 "$test" "$threads")
                b=$(cost "$serving_before" 6143 "$test" "$threads")
            fi
            echo "$b $a" | awk '{ print $1, $2, $2 / $1 }' >>"$work/both"
        done
        printf '%-22s %8s %10s %10s %8s\n' "$test" "$threads" "$(awk '{ print $1 }' "$work/both" | median)" \
            "$(awk '{ print $2 }' "$work/both" | median)" "$(awk '{ printf "%.3f\n", $3 }' "$work/both" | median)"
    done
done
