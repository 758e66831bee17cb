#!/usr/bin/env bash
# Fuzzes each check of crates/fuzzing for SECONDS (60 by default), two at a time, and prints one line a check. Ends with 1 when one fails; its line then
# names the input that did it and shows its bytes. What is found is kept in fuzz/corpus for the next run.
# usage: scripts/fuzz.sh [SECONDS [CHECK...]]      0 seconds: only builds the fuzzer
set -uo pipefail
cd "$(dirname "$0")/../fuzz" || exit 1

seconds=${1:-60}
case $seconds in
    '' | *[!0-9]*)
        echo "fuzz.sh: SECONDS is a whole number, not '$seconds'" >&2
        exit 2
        ;;
esac
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(seeds/*)
targets=("${targets[@]#seeds/}")
at_once=2
grace=60 # seconds beyond `seconds` for reading the corpus, and for an engine that does not stop by itself

fail() {
    echo "fuzz.sh: $*" >&2
    exit 1
}

command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz || fail "cargo-fuzz could not be installed"
cargo fetch --locked --quiet 2>/dev/null || {
    cargo fetch --quiet || fail "the dependencies of the fuzzer could not be had"
    echo "fuzz.sh: fuzz/Cargo.lock was behind the crates and is brought up to date: commit it" >&2
}

# The engine needs compiler switches that only nightly takes without being told so.
[[ $(rustc --version) == *nightly* ]] || export RUSTC_BOOTSTRAP=1
library=$(rustc --print target-libdir)
host=$(rustc -vV | sed -n 's/^host: //p')
sanitizer=none
compgen -G "$library/librustc*_rt.asan.a" >/dev/null && sanitizer=address

work=$(mktemp -d)
pids=()
clean() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    wait
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

cargo fuzz build --sanitizer "$sanitizer" >"$work/build" 2>&1 || {
    tail -n 100 "$work/build" >&2
    fail "the fuzzer did not build"
}
[ "$seconds" -gt 0 ] || exit 0

# Runs one target to its end; leaves its line in $work/NAME.line, and $work/NAME.failed when it failed.
run() {
    local name=$1 log=$work/$1.log dictionary=packet code input why
    [ ! -e "dictionaries/$name" ] || dictionary=$name
    mkdir -p "corpus/$name" "artifacts/$name"
    # A crash of a run before is not this run's.
    touch "$work/$name.began"
    FUZZ_TARGET=$name timeout --kill-after=5 $((seconds + grace)) "target/$host/release/fuzz" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=64 -max_len=4096 -detect_leaks=0 \
        -print_final_stats=1 -dict="dictionaries/$dictionary" -artifact_prefix="artifacts/$name/" \
        "corpus/$name" "seeds/$name" >"$log" 2>&1 </dev/null &
    local child=$!
    trap 'kill "$child" 2>/dev/null' TERM
    wait "$child"
    code=$?
    local executions first last
    executions=$(awk '/^stat::number_of_executed_units:/ { n = $2 } END { print n }' "$log")
    [ -n "$executions" ] || executions=$(awk -F'[#\t ]+' '/^#[0-9]+/ { n = $2 } END { print n + 0 }' "$log")
    first=$(sed -n 's/^#[0-9]*[[:space:]]*INITED cov: \([0-9]*\).*/\1/p' "$log" | head -n 1)
    last=$(sed -n 's/^#[0-9]*[[:space:]].*cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
    if [ "$code" = 0 ]; then
        why=ok
    else
        input=$(find "artifacts/$name" -type f -newer "$work/$name.began" | head -n 1)
        touch "$work/$name.failed"
        if [ -n "$input" ]; then
            why="FAIL fuzz/$input $(od -An -v -tx1 "$input" | tr -d ' \n')"
        elif [ "$code" = 124 ] || [ "$code" = 137 ]; then
            why="FAIL it did not end within $((seconds + grace)) s"
        else
            why="FAIL it ended with $code and left no input"
        fi
        grep -aE -m 1 -A 3 'panicked at|ERROR: ' "$log" | sed '/^stack backtrace/,$d' >"$work/$name.failed"
    fi
    printf '%-12s %10s executions  coverage %5s + %-5s %s\n' \
        "$name" "$executions" "${first:-0}" "$((${last:-0} - ${first:-0}))" "$why" >"$work/$name.line"
}

report() { # name
    cat "$work/$1.line"
    [ ! -s "$work/$1.failed" ] || sed 's/^/             /' "$work/$1.failed"
}

for name in "${targets[@]}"; do
    [ -d "seeds/$name" ] || fail "there is no check '$name'"
    while [ "$(jobs -pr | wc -l)" -ge $at_once ]; do wait -n; done
    run "$name" &
    pids+=($!)
done
failed=0
for at in "${!targets[@]}"; do
    wait "${pids[$at]}"
    report "${targets[$at]}"
    [ ! -e "$work/${targets[$at]}.failed" ] || failed=1
done
pids=()
exit $failed
