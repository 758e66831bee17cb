#!/usr/bin/env bash
# A member of a Galera cluster stands still for a moment: how long is nothing committed, through Understudy on default settings and, in the same
# run, straight at a member that goes on, without Understudy? One curve each over the length of the stop. Writes table.txt, result.json and
# report.html (a picture) into DIR, for scripts/kept.sh. Takes 14 minutes at most: stops that no time is left for are left out, and that is said.
# usage: scripts/bench-blink.sh DIR [standby|writer|two] [SECONDS...]     two: a standby and then, as it goes on, the writer
#   RATE:  transactions a second of the load (30)
#   FAULT: what stands still: the process (SIGSTOP), the link (down), or the disk (a file system of its own, frozen)
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '/^# usage/s/^# //p' "$0" >&2; exit 2; }
out=$1 who=${2:-standby} rate=${RATE:-30} fault=${FAULT:-process}
shift $(($# > 1 ? 2 : 1))
stops=("$@")
[ ${#stops[@]} -gt 0 ] || stops=(0.3 0.5 0.6 0.7 0.8 0.9 1.0 1.1 1.2 1.4 1.7 2 2.5 3 5 5.5 6 7 10 20)
[[ $who =~ ^(standby|writer|two)$ ]] || { echo "bench-blink.sh: standby, writer or two, not '$who'" >&2; exit 2; }
[[ $fault =~ ^(process|link|disk)$ ]] || { echo "bench-blink.sh: FAULT is process, link or disk, not '$fault'" >&2; exit 2; }
for stop in "${stops[@]}"; do
    [[ $stop =~ ^[0-9]+(\.[0-9]+)?$ ]] || { echo "bench-blink.sh: '$stop' is no number of seconds" >&2; exit 2; }
done
limit=840
mkdir -p "$out"
program=${UNDERSTUDY_BIN:-target/dist/understudy}
. scripts/served.sh
serve_cluster blink galera

error_log() { "$program" lab status --name "$stage" --json | jq -r --arg name "$1" '.nodes[] | select(.name == $name) | .error_log'; }
own_disk() { # moves a node's data to a file system of its own, which can be frozen
    local log at begin=$SECONDS
    log=$(error_log "$1")
    at=$(dirname "$log")/data
    "$program" lab fault "$1" stop --name "$stage" >/dev/null
    until grep -q 'Shutdown complete' "$log"; do
        [ $((SECONDS - begin)) -lt 60 ] || { echo "bench-blink.sh: $1 has not stopped after 60 s" >&2; exit 1; }
        sleep 0.1
    done
    truncate -s 600M "$images/$1"
    mkfs.ext4 -q "$images/$1"
    mkdir "$images/$1.moved"
    mount -o loop "$images/$1" "$images/$1.moved"
    rmdir "$images/$1.moved/lost+found"
    cp -a "$at/." "$images/$1.moved/"
    chown --reference="$at" "$images/$1.moved"
    umount "$images/$1.moved"
    mount -o loop "$images/$1" "$at"
    echo "$at" >"$images/$1.at"
    "$program" lab fault "$1" heal --name "$stage" >/dev/null
}
still() { # a member stands still
    case $fault in
    process) "$program" lab fault "$1" freeze --name "$stage" >/dev/null ;;
    link) "$program" lab fault "$1" vanish --name "$stage" >/dev/null ;;
    disk) fsfreeze --freeze "$(cat "$images/$1.at")" ;;
    esac
}
goes_on() { # and goes on again
    case $fault in
    process) "$program" lab fault "$1" thaw --name "$stage" >/dev/null ;;
    # Waits until the member is back; the link is up long before that.
    link) "$program" lab fault "$1" heal --name "$stage" >/dev/null & ;;
    disk) fsfreeze --unfreeze "$(cat "$images/$1.at")" ;;
    esac
}
word() { # a node's HOST:PORT, a status variable
    mariadb --connect-timeout=2 -h "${1%:*}" -P "${1#*:}" -u understudy -punderstudy -NBe "SHOW GLOBAL STATUS LIKE '$2'" 2>/dev/null | cut -f2
}
all_well() { # for three looks in a row
    local begin=$SECONDS well=0 node
    while [ "$well" -lt 3 ]; do
        [ $((SECONDS - begin)) -lt 60 ] || { echo "bench-blink.sh: not all members are back after 60 s" >&2; exit 1; }
        well=$((well + 1))
        for node in "${nodes[@]}"; do
            [ "$(word "$node" wsrep_cluster_size) $(word "$node" wsrep_local_state) $(word "$node" wsrep_evs_state)" = "3 4 OPERATIONAL" ] || well=0
        done
        sleep 0.3
    done
}
writer() { "$program" status --config "$work/understudy.toml" | awk '$1 == "writer" { print $2; exit }'; }
gap() { # the load's address, the length of the stop, who stands still, one after the other: the longest time without a commit, in seconds
    local address=$1 stop=$2 time loader victim
    shift 2
    time=$(awk -v s="$stop" -v n=$# 'BEGIN { print int(n * s + 9) }')
    "$program" lab load "$address" --clients retrying --rate "$rate" --arrivals uniform --time "$time" >"$work/load" 2>&1 &
    loader=$!
    sleep 3
    for victim in "$@"; do
        still "$victim"
        sleep "$stop"
        goes_on "$victim"
    done
    wait "$loader" || true
    sed -n 's/.*longest gap between commits \([0-9.]*\) ms.*/\1/p' "$work/load" | head -n 1 | awk '{ printf "%.2f\n", $1 / 1000 }'
}

images=
if [ "$fault" = disk ]; then
    images=$(mktemp -d)
    trap 'for image in "$images"/db*; do fsfreeze --unfreeze "$(cat "$image.at" 2>/dev/null)" 2>/dev/null || true; done; end_served; umount "$images"/*.moved 2>/dev/null || true; rm -rf "$images"' EXIT
    for name in db1 db2 db3; do own_disk "$name"; done
fi
until mariadb -h "$side" -P 6133 -u sbtest -psbtest -e 'SELECT 1' sbtest >/dev/null 2>&1; do
    [ "$SECONDS" -lt 120 ] || { cat "$work/serve.log" >&2; exit 1; }
    sleep 0.2
done
# Makes the load's tables, so that no trial does.
"$program" lab load "$side:6133" --rate "$rate" --time 1 >/dev/null 2>&1
# What each trial needs beside its stops, measured: the load, and the members' return.
around=26
left_out=
: >"$work/rows"
for stop in "${stops[@]}"; do
    if awk -v now="$SECONDS" -v stop="$stop" -v around="$around" -v members=$([ "$who" = two ] && echo 2 || echo 1) -v limit="$limit" 'BEGIN { exit !(now + 2 * stop * members + around > limit) }'; then
        left_out="$left_out $stop"
        continue
    fi
    all_well
    active=$(writer)
    victims=("$active")
    if [ "$who" != writer ]; then
        [ "$active" = db3 ] && standby=db2 || standby=db3
        [ "$who" = two ] && victims=("$standby" "$active") || victims=("$standby")
    fi
    with=$(gap "$side:6133" "$stop" "${victims[@]}")
    all_well
    # Without Understudy: it is stopped, and the clients are at a member that goes on; but a disk keeps its own member's commits waiting and nobody
    # else's, so the clients stay where they were.
    kill -STOP "$serving"
    number=1
    if [ "$fault" = disk ]; then
        number=${active#db}
    else
        while [[ " ${victims[*]} " = *" db$number "* ]]; do number=$((number + 1)); done
    fi
    without=$(gap "${nodes[$((number - 1))]}" "$stop" "${victims[@]}")
    kill -CONT "$serving"
    echo "$stop ${without:-none} ${with:-none}" >>"$work/rows"
    echo "$who ${victims[*]}: $fault still for $stop s: ${without:-none} s without, ${with:-none} s with Understudy" >&2
done

case $who in
standby) subject="The $fault of a standby" ;;
writer) subject="The $fault of the writer" ;;
two) subject="The $fault of a standby and then of the writer" ;;
esac
subject="$subject of three Galera members stands still"
at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
version() { mariadb -h "${nodes[0]%:*}" -P "${nodes[0]#*:}" -u understudy -punderstudy -NBe "$1" | awk '{ print $NF }'; }
{
    echo "$subject; default settings; $rate transactions a second; the longest time without a commit, in seconds"
    printf '%12s %22s %18s %10s\n' 'stop' 'without Understudy' 'with Understudy' 'more'
    awk '{ printf "%12s %22s %18s %10s\n", $1, $2, $3, ($2 == "none" || $3 == "none") ? "-" : sprintf("%+.2f", $3 - $2) }' "$work/rows"
    [ -z "$left_out" ] || echo "left out, since no time was left:$left_out"
} | tee "$out/table.txt"
{
    printf '{\n  "at": "%s",\n  "who": "%s",\n  "fault": "%s",\n  "rate": %s,\n  "machine": {\n' "$at" "$who" "$fault" "$rate"
    printf '    "MariaDB": "%s",\n    "Galera": "%s",\n    "Understudy": "%s"\n  },\n  "trials": [\n' \
        "$(version 'SELECT @@version')" "$(version "SHOW GLOBAL STATUS LIKE 'wsrep_provider_version'")" "$("$program" --version | awk '{ print $NF }')"
    awk 'function value(text) { return text == "none" ? "null" : text }
        { printf "%s    { \"stop_s\": %s, \"without_s\": %s, \"with_s\": %s }", (NR > 1 ? ",\n" : ""), $1, value($2), value($3) } END { print "" }' "$work/rows"
    printf '  ]\n}\n'
} >"$out/result.json"
awk -v subject="$subject" -v at="$at" '
    { stop[NR] = $1; y[1, NR] = $2; y[2, NR] = $3; for (i = 1; i <= 3; i++) if ($i + 0 > top) top = $i + 0 }
    function px(s) { return 50 + s / top * 620 }
    function py(s) { return 330 - s / top * 300 }
    END {
        if (!top) top = 1
        print "<!DOCTYPE html><meta charset=\"utf-8\"><title>A member stands still</title><h1>" subject "</h1>"
        print "<p>Measured " at ". Across: how long it stands still. Up: the longest time without a commit. Grey: without Understudy; blue: with it.</p><svg width=\"720\" height=\"370\">"
        for (i = 0; i <= 5; i++) {
            printf "<line x1=\"50\" x2=\"670\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"5\" y=\"%.1f\" font-size=\"12\">%.1f s</text><text x=\"%.1f\" y=\"350\" font-size=\"12\">%.1f s</text>\n", py(top*i/5), py(top*i/5), py(top*i/5)+4, top*i/5, px(top*i/5)-10, top*i/5
        }
        for (c = 1; c <= 2; c++) {
            printf "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", c == 1 ? "#888" : "#05c"
            for (i = 1; i <= NR; i++) if (y[c, i] != "none") printf "%.1f,%.1f ", px(stop[i]), py(y[c, i])
            print "\"/>"
        }
        print "</svg>"
    }' "$work/rows" >"$out/report.html"
