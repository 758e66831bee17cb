#!/usr/bin/env bash
# Renews what docs/figures.md and the README show of a real run: the output of the demo, and the picture of its report (docs/img/demo.png). Needs a
# built target/release/understudy, root, chromium, and a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$PWD/target/release/understudy
[ -x "$program" ] || { echo "docs: build it first: make build" >&2; exit 1; }
command -v chromium >/dev/null || { echo "docs: chromium is missing: apt-get install chromium" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$work" && "$program" lab demo >out.txt)
timeout 60 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,1400 --force-device-scale-factor=0.9 \
    --user-data-dir="$work/profile" --screenshot="$work/demo.png" "file://$work/demo.html" 2>/dev/null
[ -s "$work/demo.png" ] || { echo "docs: chromium made no picture" >&2; exit 1; }

# Between the two marks of docs/figures.md.
awk -v out="$work/out.txt" '
    /^<!-- \/demo -->$/ { inside = 0 }
    !inside
    /^<!-- demo -->$/ { print "```text"; while ((getline line < out) > 0) print line; print "```"; inside = 1 }
' docs/figures.md >"$work/figures.md"
grep -q '^<!-- /demo -->$' "$work/figures.md"
cat "$work/figures.md" >docs/figures.md
mkdir -p docs/img
cp "$work/demo.png" docs/img/demo.png
cat "$work/out.txt"
echo "docs: docs/figures.md and docs/img/demo.png are of this run"
