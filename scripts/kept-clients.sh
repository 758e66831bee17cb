#!/usr/bin/env bash
# Keeps a run of clients/run.py: its table, what differed, and the machine, in bench/runs/YYYY-MM-DD-clients. Existing runs are never overwritten.
# usage: kept-clients.sh DIRECTORY
set -euo pipefail
from=${1:?usage: kept-clients.sh DIRECTORY}
cd "$(dirname "$0")/.."
kept=bench/runs/$(date +%F)-clients
number=2
while [ -e "$kept" ]; do
    kept=${kept%-clients*}-clients-$number
    number=$((number + 1))
done
mkdir -p "$kept"
cp "$from/table.txt" "$from/result.json" "$kept/"
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ "$commit" = unknown ] || [ -z "$(git status --porcelain -- . ':!bench/runs' ':!docs/compatibility.md')" ] || commit="$commit, and changes that were not committed"
{
    echo "kernel       $(uname -sr), $(nproc) processors"
    echo "commit       $commit"
    echo "command      make test-clients"
} >"$kept/machine.txt"
echo "kept: $kept"
