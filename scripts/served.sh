# Sourced by scripts that measure `understudy serve`: a real cluster of the lab with Understudy in front of it, on default settings, and a directory `$work` for what they write. What is started is ended with the script; `$pids` may be added to.
#   in:  $program, the program
#   out: $nodes, HOST:PORT of each; $side, the address of this side; $serving, the process. MySQL is at $side:6133, the API at $side:6180;
#        the log is $work/serve.log

work=$(mktemp -d)
pids=()
end_served() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    "$program" lab down --name "$stage" >/dev/null 2>&1 || true
    rm -rf "$work"
}

serve_cluster() { # the stage's name, galera (the default) or replication (semi-synchronous), more options of `lab up`
    stage=$1
    local kind=${2:-galera} more=("${@:3}")
    [ "$kind" = galera ] || more+=(--semi-sync)
    trap end_served EXIT
    "$program" lab up "$kind" "${more[@]}" --name "$stage" >"$work/up" 2>"$work/up.log" || { cat "$work/up.log" >&2; exit 1; }
    mapfile -t nodes < <(awk '$1 ~ /^db[0-9]/ && $2 ~ /:3306/ { print $2 }' "$work/up")
    side=$(awk '/this side.s address/ { print $NF }' "$work/up")
    local number=0 node
    {
        printf '[cluster]\nname = "%s"\nid = 1\nkind = "%s"\n[cluster.monitor]\nuser = "understudy"\npassword = "understudy"\n' "$stage" "$kind"
        [ "$kind" = galera ] || printf '[cluster.replication]\nuser = "replication"\npassword = "replication"\n'
        for node in "${nodes[@]}"; do
            number=$((number + 1))
            printf '[[cluster.node]]\nname = "db%s"\naddress = "%s"\npriority = %s\n' "$number" "$node" $((100 - number))
        done
        printf '[listen]\nmysql = "%s:6133"\nhttp = "%s:6180"\n[state]\ndir = "%s/state"\n' "$side" "$side" "$work"
    } >"$work/understudy.toml"
    "$program" serve --config "$work/understudy.toml" >"$work/serve.log" 2>&1 &
    serving=$!
    pids+=("$serving")
}

# What the scripts do that measure CPU. in: $seconds, how long sysbench runs
ticks=$(getconf CLK_TCK)
cpu() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
bench() { # port, test, threads, what, prepared statements: disable (the default) or auto
    sysbench "$2" --mysql-host="$side" --mysql-port="$1" --mysql-user=sbtest --mysql-password=sbtest --mysql-db=sbtest --tables=1 \
        --table-size=10000 --threads="$3" --time="$seconds" --db-ps-mode="${5:-disable}" "$4"
}
until_it_serves() { # port, prepare or run, its log
    until seconds=1 bench "$1" oltp_point_select 1 "$2" >"$work/$2" 2>&1; do
        [ "$SECONDS" -lt 90 ] || { cat "$work/$2" "$3" >&2; exit 1; }
        sleep 0.5
    done
}
statement_us() { # process, port, test, threads: its CPU microseconds a statement
    local used queries
    used=$(cpu "$1")
    queries=$(bench "$2" "$3" "$4" run | awk '/^ *total: / { print $2 }')
    awk -v t=$(($(cpu "$1") - used)) -v hz="$ticks" -v q="$queries" 'BEGIN { printf "%.2f\n", t / hz * 1e6 / q }'
}
