#!/usr/bin/env bash
# All checks and tests, in the order in which they fail fastest. Ends with the ten slowest tests and the test runner's counts.
set -uo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
log=$work/log
beside=
ended() {
    [ -z "$beside" ] || kill "$beside" 2>/dev/null
    wait
    rm -rf "$work"
}
trap ended EXIT
failed=0

step() { # name, command...
    local name=$1 began=$SECONDS
    shift
    if "$@" >"$work/$name" 2>&1; then
        printf 'ok    %-28s %4d s\n' "$name" $((SECONDS - began))
    else
        printf 'FAIL  %-28s %4d s\n' "$name" $((SECONDS - began))
        tail -n 200 "$work/$name"
        failed=1
    fi
}

# The test runner, built for nothing but starting tests: optimised, it takes twice as long to build.
runner() {
    cargo nextest --version 2>/dev/null ||
        CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off cargo install --locked --quiet cargo-nextest \
            --no-default-features --features default-no-update
}

# In a fresh clone everything is built once: what would make the next build quicker is not kept.
[ -d target/debug ] || export CARGO_INCREMENTAL=0

step "format" cargo fmt --all --check
step "lints" cargo clippy --workspace --all-targets --locked -- -D warnings
# A machine without cargo-deny would build it for two minutes; `make nightly` does.
if command -v cargo-deny >/dev/null; then
    step "licences and sources" cargo deny --all-features check bans licenses sources
else
    echo "skip  licences and sources: cargo-deny is missing; \`make nightly\` installs it"
fi
step "test runner" runner
step "build" cargo nextest run --workspace --locked --no-run

# Made while the tests wait for their servers.
{
    step "documentation" nice -n 19 env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
    exit "$failed"
} >"$work/beside" 2>&1 &
beside=$!

junit=target/nextest/default/junit.xml
rm -f "$junit"
began=$SECONDS
if RUST_BACKTRACE=0 cargo nextest run --workspace --locked --no-output-indent >"$log" 2>&1; then
    printf 'ok    %-28s %4d s\n' "tests" $((SECONDS - began))
else
    printf 'FAIL  %-28s %4d s\n' "tests" $((SECONDS - began))
    # What the failed tests, and the programs that they ran, had printed stands behind the summary; without one the build failed.
    grep -qE '^ +Summary ' "$log" || tail -n 200 "$log"
    sed -n '/^ *Summary \[/,$p' "$log" | tail -n 1500
    failed=1
fi
counts=$(grep -E '^ +Summary ' "$log" | tail -n 1 | sed -E 's/^ +//')

wait "$beside" || failed=1
beside=
cat "$work/beside"

if [ -f "$junit" ]; then
    echo "the slowest tests, s:"
    sed -nE 's/.*<testcase name="([^"]*)" classname="([^"]*)".* time="([0-9.]+)".*/\3 \2 \1/p' "$junit" | sort -rn | head -n 10
fi
echo "${counts:-no test ran}"
exit "$failed"
