#!/usr/bin/env bash
# Prints the lines of product code of each crate beside its budget (budget.txt): neither blank nor comment, without tests. Ends with 1 where a
# crate, or the sum, is above its budget: raise it in the change that needs it, so that growth is decided and not drifted into.
set -euo pipefail
cd "$(dirname "$0")/.."

count() { # directory
    # Unit tests are a module at the end of a file, or files of their own.
    git ls-files ":(glob)$1/src/**/*.rs" | grep -vE '(^|/)tests(\.rs|/)' | while read -r file; do
        awk '/^#\[cfg\(test\)\]/ { getline next_line; if (next_line ~ /^(pub(\([a-z]+\))? )?mod [a-z_]+ \{/) exit; if (next_line ~ /^mod /) next; n++ }
             /^[[:space:]]*(\/\/.*)?$/ { next } { n++ } END { print n + 0 }' "$file"
    done | awk '{ n += $1 } END { print n + 0 }'
}

sum=0 over=0
printf '%-12s %7s %7s\n' room code budget
for manifest in crates/*/Cargo.toml; do
    room=$(basename "$(dirname "$manifest")")
    # What only tests use is no part of the product.
    case $room in fixture | fuzzing | harness | sim | testbed) continue ;; esac
    lines=$(count "crates/$room")
    budget=$(awk -v room="$room" '$1 == room { print $2 }' budget.txt)
    [ "$lines" -le "${budget:-0}" ] && mark= || { mark=' over'; over=1; }
    printf '%-12s %7d %7d%s\n' "$room" "$lines" "${budget:-0}" "$mark"
    sum=$((sum + lines))
done
budget=$(awk '$1 == "sum" { print $2 }' budget.txt)
[ "$sum" -le "$budget" ] && mark= || { mark=' over'; over=1; }
printf '%-12s %7d %7d%s\n' sum "$sum" "$budget" "$mark"
exit "$over"
