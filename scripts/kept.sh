#!/usr/bin/env bash
# Keeps a measured run: from the directory that `understudy lab failover`, `lab bench health`, `lab vip`, `lab recovery`, `lab consistency` or `lab capacity` wrote by `--out-dir DIR`,
# makes bench/runs/YYYY-MM-DD-NAME/{table.txt,result.json,machine.txt}, and report.html when there is one. Existing runs are never
# overwritten.
set -euo pipefail

usage='usage: scripts/kept.sh DIR NAME [COMMAND...]   (DIR of `understudy lab failover|vip|recovery|consistency|capacity|bench health --out-dir DIR`; NAME such as nine-cells)'
[ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }
from=$1 name=$2
shift 2
[[ $name =~ ^[a-z0-9][a-z0-9-]*$ ]] || { echo "kept: NAME is a-z, 0-9 and -, it is: $name" >&2; exit 2; }
for file in table.txt result.json; do
    [ -s "$from/$file" ] || { echo "kept: $from/$file is missing: is it a directory of --out-dir?" >&2; exit 1; }
done

# A value of the result, which is JSON indented by two: kept "machine" "kernel".
value() { # object, key
    sed -n "/^  \"$1\": {/,/^  }/s/^ *\"$2\": \"\{0,1\}\([^\"]*[^\",]\)\"\{0,1\},\{0,1\}\$/\1/p" "$from/result.json" | head -n 1
}

day=$(value conditions at)
[ -n "$day" ] || day=$(sed -n 's/^  "at": "\([^"]*\)",\{0,1\}$/\1/p' "$from/result.json")
root=$(cd "$(dirname "$0")/.." && pwd)
kept=$root/bench/runs/${day%%T*}-$name
[ -n "$day" ] || { echo "kept: $from/result.json does not say when it was measured" >&2; exit 1; }
[ ! -e "$kept" ] || { echo "kept: ${kept#"$root"/} is there already: give it another NAME" >&2; exit 1; }

# The program does not know from which commit it was built: the only one that can be told is that of this moment.
commit=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
# What is kept under bench/runs itself does not make a difference to what was measured.
if [ "$commit" != unknown ] && [ -n "$(git -C "$root" status --porcelain -- . ':!bench/runs')" ]; then
    commit="$commit, and changes that were not committed"
fi

mkdir -p "$kept"
cp "$from/table.txt" "$from/result.json" "$kept/"
[ ! -s "$from/report.html" ] || cp "$from/report.html" "$kept/"
# What `lab capacity` wrote of each run.
for file in "$from"/run-*.* "$from"/passive-*.*; do
    [ ! -s "$file" ] || cp "$file" "$kept/"
done
{
    echo "measured     $day"
    # A result that does not name its machine is kept on the machine that measured it.
    processor=$(value machine processor) cores=$(value machine cores) memory=$(value machine memory_gib) kernel=$(value machine kernel)
    echo "processor    ${processor:-$(sed -n 's/^model name\t*: //p' /proc/cpuinfo | head -n 1)}, ${cores:-$(nproc)} cores"
    echo "memory       ${memory:-$(awk '/^MemTotal/ { printf "%.1f", $2 / 1048576 }' /proc/meminfo)} GiB"
    echo "kernel       Linux ${kernel:-$(uname -r)}"
    for program in MariaDB Galera rsync mariadb-backup HAProxy nginx keepalived sysbench pt-query-digest Understudy; do
        version=$(value machine $program)
        [ -z "$version" ] || printf '%-12s %s\n' "$program" "$version"
    done
    echo "commit       $commit (when kept)"
    [ $# -eq 0 ] || echo "command      $*"
} >"$kept/machine.txt"
echo "kept: ${kept#"$root"/}"
