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

until_it_serves 6133 prepare "$work/serve.log"
until_it_serves 6143 run "$work/before.log"

printf '%-22s %8s %10s %10s %8s\n' test clients before after ratio
for test in oltp_point_select oltp_read_write; do
    for threads in 8 64; do
        : >"$work/both"
        for round in $(seq "$rounds"); do
            if [ $((round % 2)) = 0 ]; then
                b=$(statement_us "$serving_before" 6143 "$test" "$threads")
                a=$(statement_us "$serving" 6133 "$test" "$threads")
            else
                a=$(statement_us "$serving" 6133 "$test" "$threads")
                b=$(statement_us "$serving_before" 6143 "$test" "$threads")
            fi
            echo "$b $a" | awk '{ print $1, $2, $2 / $1 }' >>"$work/both"
        done
        printf '%-22s %8s %10s %10s %8s\n' "$test" "$threads" "$(awk '{ print $1 }' "$work/both" | median)" \
            "$(awk '{ print $2 }' "$work/both" | median)" "$(awk '{ printf "%.3f\n", $3 }' "$work/both" | median)"
    done
done
