#!/usr/bin/env bash
# What a statement costs through the proxy: sysbench point selects and read-write transactions against one node of a real Galera
# cluster, through HAProxy in TCP mode and through Understudy in turns, in one run. CPU seconds of the proxy's process per statement,
# since wall time says more of the machine. Then what the tap costs (reads told to whoever listens at GET /slow): the same process with
# nobody listening, with a listener that wants one read in ten, and with one that wants all. Then the same point selects under TLS, and
# connections that are made for one each. Writes DIRECTORY/proxy.txt. PARTS="plain tap tls" (all) says which of them.
#
# TLS: a client of MySQL's protocol reads a greeting in the clear and then asks for TLS, so that HAProxy, which does not speak that protocol,
# cannot end it. crates/fixture/examples/clients.rs is a client that can do both: with Understudy it begins TLS behind the greeting, as every
# driver does; with HAProxy (`bind ... ssl crt`, mode tcp) with the first byte, and MySQL's protocol is inside. HAProxy has the lighter work:
# no greeting, no password, no state of a session. For both: one certificate (ECDSA P-256), TLS 1.3, TLS_AES_256_GCM_SHA384, X25519; each
# sends session tickets as by its default, and no session is resumed; plain TCP to the node.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: bench-proxy.sh DIRECTORY [SECONDS [ROUNDS]]}
seconds=${2:-8}
rounds=${3:-3}
parts=${PARTS:-plain tap tls}
program=${UNDERSTUDY_BIN:-target/dist/understudy}
mkdir -p "$out"
. scripts/served.sh
load=${CLIENTS_BIN:-target/release/examples/clients}
[[ $parts != *tls* ]] || [ -n "${CLIENTS_BIN:-}" ] || cargo build --release --locked --quiet -p fixture --example clients
serve_cluster bench-proxy
# HAProxy shows the certificate that Understudy has made for itself.
until [ -s "$work/state/https.crt" ] && [ -s "$work/state/https.key" ]; do
    [ "$SECONDS" -lt 90 ] || { cat "$work/serve.log" >&2; exit 1; }
    sleep 0.1
done
cat "$work/state/https.crt" "$work/state/https.key" >"$work/shown.pem"
db1=${nodes[0]}
cat >"$work/haproxy.cfg" <<CFG
global
    nbthread 2
    maxconn 2000
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen mysql
    bind $side:6134
    server db1 $db1
listen tls
    bind $side:6135 ssl crt $work/shown.pem
    server db1 $db1
CFG
haproxy -f "$work/haproxy.cfg" -db >"$work/haproxy.log" 2>&1 &
haproxy=$!
pids+=("$haproxy")

until_it_serves 6133 prepare "$work/serve.log"

# The clients' threads alone: watching the nodes costs the same each second, whatever the clients do, and a listener to the tap is
# served by others as well.
clients_cpu() { cat /proc/"$serving"/task/*/stat | awk '$2 == "(proxy)" { sum += $14 + $15 } END { print sum }'; }
cost() { # test, threads: CPU microseconds a statement of the process, and of the clients' threads
    local of_all of_clients queries
    of_all=$(cpu "$serving")
    of_clients=$(clients_cpu)
    queries=$(bench 6133 "$1" "$2" run | awk '/^ *total: / { print $2 }')
    of_all=$(($(cpu "$serving") - of_all))
    of_clients=$(($(clients_cpu) - of_clients))
    awk -v a="$of_all" -v c="$of_clients" -v hz="$ticks" -v q="$queries" 'BEGIN { printf "%.2f %.2f\n", a / hz * 1e6 / q, c / hz * 1e6 / q }'
}
listener=
listen() { # nobody, or a listener to one read in so many
    local begun=$SECONDS
    : >"$work/heard"
    : >"$work/told"
    [ "$1" != nobody ] || return 0
    curl -sN -D "$work/heard" -o "$work/told" -H "X-Api-Key: $(<"$work/state/api.key")" "http://$side:6180/slow?rate_limit=$1" &
    listener=$!
    pids+=("$listener")
    until [ -s "$work/heard" ]; do
        [ $((SECONDS - begun)) -lt 20 ] || { echo "bench-proxy: nobody answers GET /slow" >&2; exit 1; }
        sleep 0.1
    done
}
unlisten() {
    [ -n "$listener" ] || return 0
    kill "$listener"
    wait "$listener" 2>/dev/null || true
    listener=
}
tap_cost() { # who listens, prepared statements: CPU microseconds a statement of the clients' threads, and of the process; percent that were told
    local of_clients of_all queries
    listen "$1"
    of_clients=$(clients_cpu)
    of_all=$(cpu "$serving")
    queries=$(bench 6133 oltp_point_select 8 run "$2" | awk '/^ *total: / { print $2 }')
    of_clients=$(($(clients_cpu) - of_clients))
    of_all=$(($(cpu "$serving") - of_all))
    unlisten
    awk -v c="$of_clients" -v a="$of_all" -v hz="$ticks" -v q="$queries" -v told="$(grep -c '^# Query_time' "$work/told" || true)" \
        'BEGIN { printf "%.2f %.2f %.1f\n", c / hz * 1e6 / q, a / hz * 1e6 / q, told / q * 100 }'
}
tls_cost() { # process, port, protocol, clients, select or connect: CPU microseconds of each
    local used count
    used=$(cpu "$1")
    count=$("$load" "$side:$2" "$3" "$work/state/https.crt" "$4" "$5" "$seconds")
    awk -v t=$(($(cpu "$1") - used)) -v hz="$ticks" -v n="$count" 'BEGIN { printf "%.2f\n", t / hz * 1e6 / n }'
}
plain() {
    echo "CPU microseconds of the proxy's process for each statement, median of $rounds rounds of $seconds s, in turns; and of Understudy's"
    echo "threads for clients alone, without those that watch the nodes"
    printf '%-22s %8s %12s %12s %8s %12s %8s\n' test clients HAProxy Understudy ratio "clients' CPU" ratio
    for test in oltp_point_select oltp_read_write; do
        for threads in 8 64; do
            : >"$work/h"
            : >"$work/u"
            for _ in $(seq "$rounds"); do
                statement_us "$haproxy" 6134 "$test" "$threads" >>"$work/h"
                cost "$test" "$threads" >>"$work/u"
            done
            h=$(median <"$work/h")
            u=$(awk '{ print $1 }' "$work/u" | median)
            c=$(awk '{ print $2 }' "$work/u" | median)
            printf '%-22s %8s %12s %12s %8s %12s %8s\n' "$test" "$threads" "$h" "$u" "$(awk -v a="$u" -v b="$h" 'BEGIN { printf "%.2f", a / b }')" \
                "$c" "$(awk -v a="$c" -v b="$h" 'BEGIN { printf "%.2f", a / b }')"
        done
    done
    idle=$(cpu "$serving")
    sleep "$seconds"
    awk -v t=$(($(cpu "$serving") - idle)) -v hz="$ticks" -v s="$seconds" 'BEGIN { printf "Without any client: %.1f ms of CPU a second\n", t / hz * 1e3 / s }'
}
tap() {
    echo "The tap: the same of oltp_point_select with 8 clients, and as a ratio to nobody listening"
    printf '%-22s %-22s %8s %12s %8s %12s %8s\n' statements "a listener wants" "told" "clients' CPU" ratio "whole CPU" ratio
    for mode in disable auto; do
        for who in nobody 10 1; do : >"$work/tap-$who"; done
        for _ in $(seq "$rounds"); do
            for who in nobody 10 1; do tap_cost "$who" "$mode" >>"$work/tap-$who"; done
        done
        c0=$(awk '{ print $1 }' "$work/tap-nobody" | median)
        a0=$(awk '{ print $2 }' "$work/tap-nobody" | median)
        for who in nobody 10 1; do
            c=$(awk '{ print $1 }' "$work/tap-$who" | median)
            a=$(awk '{ print $2 }' "$work/tap-$who" | median)
            told=$(awk '{ print $3 }' "$work/tap-$who" | median)
            what=text
            [ "$mode" = disable ] || what=prepared
            wants="nobody listens"
            case $who in 1) wants="all reads" ;; 10) wants="one read in 10" ;; esac
            printf '%-22s %-22s %6s %% %12s %8s %12s %8s\n' "$what" "$wants" "$told" \
                "$c" "$(awk -v a="$c" -v b="$c0" 'BEGIN { printf "%.2f", a / b }')" \
                "$a" "$(awk -v a="$a" -v b="$a0" 'BEGIN { printf "%.2f", a / b }')"
        done
    done
}
tls() {
    echo "Under TLS: CPU microseconds of the proxy's process for each point select, and for each connection with one; median of $rounds rounds"
    echo "of $seconds s, in turns, and the median of the rounds' ratios"
    printf '%-22s %8s %12s %12s %8s\n' what clients HAProxy Understudy ratio
    for what in select connect; do
        for clients in 8 64; do
            : >"$work/both"
            for _ in $(seq "$rounds"); do
                h=$(tls_cost "$haproxy" 6135 tls-first "$clients" "$what")
                u=$(tls_cost "$serving" 6133 tls "$clients" "$what")
                echo "$h $u" | awk '{ print $1, $2, $2 / $1 }' >>"$work/both"
            done
            printf '%-22s %8s %12s %12s %8s\n' "$what" "$clients" "$(awk '{ print $1 }' "$work/both" | median)" \
                "$(awk '{ print $2 }' "$work/both" | median)" "$(awk '{ printf "%.2f\n", $3 }' "$work/both" | median)"
        done
    done
}
for part in $parts; do
    "$part"
    echo
done | tee "$out/proxy.txt"
