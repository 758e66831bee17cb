#!/usr/bin/env bash
# What can be known without a database server: format, lints, size, unit tests, transcripts, simulations, links in the documentation.
# Warm it takes some minutes; `make test` has everything.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
scripts/lines.sh
cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --locked
programs=(--workspace --locked --lib --bins --test brain --test model --test logs)
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run "${programs[@]}" -E 'not binary_id(slowlog::logs)'
else
    cargo test "${programs[@]}"
fi
