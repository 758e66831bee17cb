#!/usr/bin/env bash
# All checks and tests, in the order in which they fail fastest. Ends with one line of counts summed over all test programs.
set -uo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp) pages_log=$(mktemp)
trap 'rm -f "$log" "$pages_log"' EXIT
failed=0

step() { # name, command...
    local name=$1 began=$SECONDS
    shift
    if "$@" >"$log" 2>&1; then
        printf 'ok    %-28s %4d s\n' "$name" $((SECONDS - began))
    else
        printf 'FAIL  %-28s %4d s\n' "$name" $((SECONDS - began))
        tail -n 200 "$log"
        failed=1
    fi
}

# cargo-deny is installed by cargo when it is missing; on two cores that takes some minutes, once.
deny() {
    command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny || return 1
    cargo deny --all-features check bans licenses sources
}

step "format" cargo fmt --all --check
step "lints" cargo clippy --workspace --all-targets --locked -- -D warnings
step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
step "licences and sources" deny
step "build" cargo test --workspace --locked --no-run

# The pages' commands run beside all other tests, on a lab of their own: they take four minutes, of which most is waiting.
began=$SECONDS
pages=the_commands_in_the_documentation_work
cargo test --workspace --locked --test docs "$pages" >"$pages_log" 2>&1 &
running=$!
cargo test --workspace --locked --no-fail-fast -- --skip "$pages" >"$log" 2>&1
tested=$?
wait "$running"
paged=$?
cat "$pages_log" >>"$log"
if [ "$tested" = 0 ] && [ "$paged" = 0 ]; then
    printf 'ok    %-28s %4d s\n' "tests" $((SECONDS - began))
else
    printf 'FAIL  %-28s %4d s\n' "tests" $((SECONDS - began))
    grep -E '^(failures:|---- |thread |error)|panicked' -A 12 "$log" | tail -n 300
    # What a program under test had logged by then.
    grep -A 80 '^its log:' "$log" | tail -n 200
    failed=1
fi
passed_count=$(awk '/^test result:/ { n += $4 } END { print n + 0 }' "$log")
failed_count=$(awk '/^test result:/ { n += $6 } END { print n + 0 }' "$log")

began=$SECONDS
if scripts/fuzz.sh "${FUZZ_SECONDS:-20}"; then
    printf 'ok    %-28s %4d s\n' "fuzzing" $((SECONDS - began))
else
    printf 'FAIL  %-28s %4d s\n' "fuzzing" $((SECONDS - began))
    failed=1
fi

[ "$failed" = 0 ] || [ "$failed_count" != 0 ] || failed_count=1
echo "$passed_count passed, $failed_count failed"
exit "$failed"
