#!/usr/bin/env bash
# Servers of other versions than the machine's own, for the lab (`understudy lab up ... --server NAME`) and the tests.
# usage: scripts/servers.sh [NAME...]     (all of them, without a NAME)
#
# Each is unpacked into a directory of its own, with the C library that it was built with: nothing is installed, and nothing of the
# machine's changes. It comes from Debian's archive, over the mirror that this machine's apt uses; apt checks the signatures with
# Debian's keys, in a state directory of its own. The programs are told (by patchelf) to use the loader and the libraries that lie beside
# them, so they are started like any other program. Needs no root. Takes some seconds, and nothing when the server is there.
set -euo pipefail

# The content of a directory; another number makes it anew.
edition=1
# The longest that apt may take to fetch its lists or the packages of one server, seconds.
fetch_limit=600

stop() {
    echo "servers: $*" >&2
    exit 1
}

# Of each: the suite of Debian that has it; the programs; what `PROGRAM --version` says behind "Ver", at its beginning; the packages, with
# all that they depend on; and packages without what these depend on (scripts, which use the machine's own tools).
describe() { # name
    case $1 in
        mysql-9.7) suite=unstable server=mysqld version=9.7. packages=(mysql-server-core mysql-client-core) alone=() ;;
        mariadb-11.8)
            suite=trixie server=mariadbd version=11.8.
            packages=(mariadb-server-core mariadb-client-core mariadb-backup galera-4) alone=(mariadb-server mariadb-client)
            ;;
        *) stop "there is no server $1: it is one of ${known[*]}" ;;
    esac
}
known=(mysql-9.7 mariadb-11.8)

# Debian's mirror, from the lists that this machine's apt has.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1
}

fetch() { # fetches the packages to $work/cache/archives and $work/alone
    local sources=$work/etc/sources.list
    mkdir -p "$work"/{etc,alone,state/lists/partial,cache/archives/partial}
    : >"$work/status"
    echo "deb [signed-by=$keys] $mirror $suite main" >"$sources"
    # A status file without a package: what the machine has installed is of no use to a server with libraries of its own.
    local apt=(timeout "$fetch_limit" apt-get -qq -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache"
        -o Dir::Etc::sourcelist="$sources" -o Dir::Etc::sourceparts=- -o Acquire::Retries=3 -o Acquire::Languages=none)
    "${apt[@]}" update >"$work/log" 2>&1 || stop "apt cannot read Debian's $suite: $(tail -n 1 "$work/log")"
    "${apt[@]}" install --download-only --yes --no-install-recommends "${packages[@]}" >"$work/log" 2>&1 ||
        stop "apt cannot fetch ${packages[*]} of Debian's $suite: $(tail -n 1 "$work/log")"
    [ ${#alone[@]} = 0 ] && return
    # As root, apt fetches as the user _apt.
    [ "$(id -u)" != 0 ] || chown _apt "$work/alone"
    (cd "$work/alone" && "${apt[@]}" download "${alone[@]}") >"$work/log" 2>&1 ||
        stop "apt cannot fetch ${alone[*]} of Debian's $suite: $(tail -n 1 "$work/log")"
}

unpack() { # unpacks them to $work/root: the server's own packages, and the libraries of the others
    local package others=$work/others
    mkdir "$work/root" "$others"
    for package in "$work"/cache/archives/*.deb "$work"/alone/*.deb; do
        [ -e "$package" ] || continue
        case " ${packages[*]} ${alone[*]} " in
            *" $(dpkg-deb --field "$package" Package) "*) dpkg-deb --extract "$package" "$work/root" ;;
            *) dpkg-deb --extract "$package" "$others" ;;
        esac
    done
    # The loader is among them.
    (cd "$others" && find usr/lib* -name '*.so*' ! -path '*/gconv/*' ! -path '*/perl*' -exec cp -a --parents -t "$work/root" {} +)
    rm -rf "$others" "$work"/root/usr/share/{doc,man}
}

use_own_libraries() { # every program of $work/root is to run from $root, with the libraries there
    local library program loader
    library=$(cd "$work/root" && echo usr/lib/*-linux-gnu)
    for program in "$work"/root/usr/{bin,sbin}/*; do
        # Scripts and links have no loader of their own.
        [ ! -L "$program" ] && loader=$(patchelf --print-interpreter "$program" 2>/dev/null) || continue
        # As a DT_RPATH, which counts for the plugins' libraries, too, and more than an LD_LIBRARY_PATH.
        patchelf --set-interpreter "$root/usr$loader" --force-rpath --set-rpath "$root/$library" "$program"
    done
}

is_there() {
    [ "$(cat "$root/edition" 2>/dev/null)" = "$edition" ] && [ -x "$root/usr/sbin/$server" ]
}

provide() { # name
    describe "$1"
    local began=$SECONDS
    root=$servers/$1
    is_there && return
    # Another process may make it at the same time.
    exec 9>"$servers/.lock"
    flock -w $((2 * fetch_limit)) 9 || stop "another process has been unpacking servers for too long"
    is_there && return
    for tool in apt-get dpkg-deb patchelf; do
        command -v "$tool" >/dev/null || stop "$tool is missing: run \`make setup\` on Debian 12 or 13"
    done
    [ -r "$keys" ] || stop "Debian's keys are missing: apt-get install debian-archive-keyring"
    mirror=$(mirror)
    if [ -z "$mirror" ] && [ "$(id -u)" = 0 ]; then
        timeout "$fetch_limit" apt-get -qq update || stop "apt cannot read the lists of this machine's mirrors"
        mirror=$(mirror)
    fi
    [ -n "$mirror" ] || stop "apt has no list of a Debian mirror: run \`apt-get update\` first"
    # Where apt's own user can write.
    work=$(mktemp -d)
    chmod 755 "$work"
    fetch
    unpack
    use_own_libraries
    rm -rf "$root"
    mv "$work/root" "$root"
    local says
    says=$("$root/usr/sbin/$server" --no-defaults --version 2>&1) || stop "$root/usr/sbin/$server does not run: $says"
    case $says in
        *" Ver $version"*) ;;
        *) stop "Debian's $suite has another version than $1 by now: $says" ;;
    esac
    echo "$edition" >"$root/edition"
    echo "servers: $1 is in $root ($(du -sm "$root" | cut -f 1) MB, from $(du -scm "$work"/cache/archives "$work"/alone | tail -n 1 | cut -f 1) MB of packages, $((SECONDS - began)) s)"
    rm -rf "$work"
}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
keys=/usr/share/keyrings/debian-archive-keyring.gpg
cache=${XDG_CACHE_HOME:-${HOME:?servers: neither HOME nor XDG_CACHE_HOME is set}/.cache}
servers=${UNDERSTUDY_SERVERS:-$cache/understudy/servers}
mkdir -p "$servers"
[ $# -gt 0 ] || set -- "${known[@]}"
if [ $# = 1 ]; then
    provide "$1"
    exit
fi
# One that is not to be had does not keep the others away.
failed=0
for name in "$@"; do
    "$0" "$name" || failed=1
done
exit "$failed"
