#!/usr/bin/env bash
# Installs, upgrades, downgrades, removes and purges what scripts/packages.sh has made, each in a fresh root of Debian (SUITES=bookworm; a root
# is kept in ~/.cache/understudy/roots), and the rpms in one with rpm's own database. Checks them with lintian and rpmlint, and the units with
# systemd-analyze. The service runs under a systemd of its own (systemd-nspawn) in front of a Galera cluster of the lab. As root, on Debian: it
# installs what it needs where that is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

exposure_max=15 # tenths, by `systemd-analyze security`: a unit that says nothing has 96
packages=$PWD/target/packages
newer=$PWD/target/packages.newer
cache=$HOME/.cache/understudy/roots

fail() {
    echo "test-packages: $*" >&2
    exit 1
}
told() { echo "test-packages: $*"; }

need=()
for pair in debootstrap:debootstrap lintian:lintian rpm:rpm rpmlint:rpmlint systemd-analyze:systemd systemd-nspawn:systemd-container; do
    command -v "${pair%%:*}" >/dev/null || need+=("${pair##*:}")
done
[ ${#need[@]} = 0 ] || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null; }

version=$(basename "$packages"/understudy_*.deb | cut -d _ -f 2)
arch=$(basename "$packages"/understudy_*.deb .deb | cut -d _ -f 3)
VERSION=${version%-*}.1 OUT=$newer QUICK=1 scripts/packages.sh
newer_version=$(basename "$newer"/understudy_*.deb | cut -d _ -f 2)
dpkg --compare-versions "$newer_version" gt "$version" || fail "$newer_version is not above $version"

# The files themselves.
(cd "$packages" && sha256sum --quiet --check SHA256SUMS)
lintian --fail-on error "$packages"/*.deb
rpmlint --config scripts/rpmlint.toml "$packages"/*.rpm
told "checksums, lintian and rpmlint have no error"

# A signature of the operator's key.
keys=$(mktemp -d)
root=$(mktemp -d)
stage_is_up=
nspawn=
cleanup() {
    touch "$keys/enough"
    [ -z "$nspawn" ] || kill "$nspawn" 2>/dev/null || true
    [ -z "$stage_is_up" ] || target/dist/understudy lab down --name packages >/dev/null || true
    wait
    rm -rf --one-file-system "$root" "$keys"
}
trap cleanup EXIT
GNUPGHOME=$keys gpg --batch --quiet --passphrase '' --quick-generate-key packages@example.invalid ed25519 sign never
cp "$packages/SHA256SUMS" "$keys/SHA256SUMS"
GNUPGHOME=$keys SIGN_KEY=packages@example.invalid scripts/packages.sh sign "$keys/SHA256SUMS"
GNUPGHOME=$keys gpg --batch --quiet --verify "$keys/SHA256SUMS.asc" "$keys/SHA256SUMS" 2>/dev/null || fail "the signature is not good"
told "checksums can be signed"

fresh() { # a root of a suite, anew
    rm -rf --one-file-system "$root"
    if [ ! -d "$cache/$1" ]; then
        mkdir -p "$cache"
        debootstrap --variant=minbase --include=iproute2,procps "$1" "$cache/$1.new" >/dev/null
        mv "$cache/$1.new" "$cache/$1"
    fi
    cp -a "$cache/$1" "$root"
    mkdir -p "$root/packages/newer"
    cp "$packages"/*.deb "$packages"/*.rpm "$root/packages/"
    cp "$newer"/*.deb "$newer"/*.rpm "$root/packages/newer/"
}
in_root() { chroot "$root" "$@"; }
has() { [ -e "$root$1" ] || [ -L "$root$1" ] || fail "$2: $1 is missing"; }
has_not() { [ ! -e "$root$1" ] && [ ! -L "$root$1" ] || fail "$2: $1 is there"; }
# What an operator and the program leave behind.
use() {
    printf '[cluster]\nname = "mine"\n' >"$root/etc/understudy/understudy.toml"
    in_root install -d -o understudy -g understudy -m 700 /var/lib/understudy
    in_root touch /var/lib/understudy/state.sqlite
}
kept() {
    grep -q mine "$root/etc/understudy/understudy.toml" || fail "$1: the configuration is gone"
    has /var/lib/understudy/state.sqlite "$1"
}
runs() {
    local said
    said=$(in_root understudy --version)
    [ "$said" = "understudy $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)" ] || fail "$1: it says $said"
}

units() {
    for unit in understudy.service understudy-check.service; do
        systemd-analyze security --offline=true --threshold=$exposure_max "$root/usr/lib/systemd/system/$unit" >"$keys/exposure" ||
            fail "$unit: $(tail -n 1 "$keys/exposure")"
        told "$unit: $(sed -n 's/.*level for [^:]*: //p' "$keys/exposure")"
    done
    # What it needs of others is not in this root.
    said=$(systemd-analyze verify --root="$root" understudy.service understudy-check.service understudy-check.socket 2>&1 |
        grep -E 'understudy' | grep -vE 'Failed to (add dependency|create)|is not executable: No such file' || true)
    [ -z "$said" ] || fail "systemd-analyze verify: $said"
}

debian() {
    fresh "$1"
    in_root dpkg --install "/packages/understudy_${version}_$arch.deb" >/dev/null
    in_root getent passwd understudy >/dev/null || fail "$1: no user"
    runs "$1, installed"
    for path in /usr/share/man/man1/understudy-serve.1.gz /usr/share/bash-completion/completions/understudy \
        /usr/share/zsh/vendor-completions/_understudy /usr/share/fish/vendor_completions.d/understudy.fish; do
        has "$path" "$1, installed"
    done
    in_root bash -c '. /usr/share/bash-completion/completions/understudy && complete -p understudy' >/dev/null || fail "$1: bash completes nothing"
    units
    use
    in_root dpkg --install "/packages/newer/understudy_${newer_version}_$arch.deb" </dev/null >/dev/null
    kept "$1, upgraded"
    runs "$1, upgraded"
    in_root dpkg --install "/packages/understudy_${version}_$arch.deb" </dev/null >/dev/null 2>&1
    kept "$1, downgraded"
    in_root dpkg --install "/packages/understudy-lab_${version}_$arch.deb" >/dev/null
    in_root understudy lab --version >/dev/null || fail "$1: understudy lab does not start"
    in_root dpkg --remove understudy-lab >/dev/null
    in_root dpkg --remove understudy >/dev/null
    has_not /usr/bin/understudy "$1, removed"
    has_not /usr/lib/systemd/system/understudy.service "$1, removed"
    kept "$1, removed"
    in_root dpkg --install "/packages/understudy_${version}_$arch.deb" >/dev/null
    kept "$1, installed again"
    in_root dpkg --purge understudy >/dev/null 2>&1
    has_not /etc/understudy "$1, purged"
    has_not /var/lib/understudy "$1, purged"
    [ -z "$(in_root dpkg-query -l 'understudy*' 2>/dev/null | grep '^.[ic]')" ] || fail "$1: dpkg still knows it"
    told "$1: installed, upgraded, downgraded, removed and purged"
}

# Beside a package that ships a script of the same name, whichever comes first.
clustercheck() {
    fresh "$1"
    mkdir -p "$root/other/DEBIAN" "$root/other/usr/bin"
    printf 'Package: percona-xtradb-cluster-server\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.invalid>\nDescription: x\n' \
        >"$root/other/DEBIAN/control"
    printf '#!/bin/sh\necho of the database\n' >"$root/other/usr/bin/clustercheck"
    chmod 755 "$root/other/usr/bin/clustercheck"
    in_root dpkg-deb --build /other /other.deb >/dev/null
    in_root dpkg --install "/packages/understudy_${version}_$arch.deb" >/dev/null
    for order in "/other.deb /packages/understudy-clustercheck_${version}_all.deb" "/packages/understudy-clustercheck_${version}_all.deb /other.deb"; do
        for package in $order; do
            in_root dpkg --install "$package" >/dev/null
        done
        [ "$(readlink "$root/usr/bin/clustercheck")" = understudy ] || fail "$1: clustercheck is not ours"
        in_root clustercheck.diverted | grep -q 'of the database' || fail "$1: the database's script is lost"
        # 503: there is no database here. The original ends with 1, too.
        said=$(in_root clustercheck || true)
        case $said in "HTTP/1.1 503"*) ;; *) fail "$1: clustercheck says $said" ;; esac
        in_root dpkg --install "/packages/newer/understudy_${newer_version}_$arch.deb" "/packages/newer/understudy-clustercheck_${newer_version}_all.deb" >/dev/null
        [ "$(readlink "$root/usr/bin/clustercheck")" = understudy ] || fail "$1: clustercheck is not ours after an upgrade"
        in_root dpkg --purge understudy-clustercheck >/dev/null
        in_root clustercheck | grep -q 'of the database' || fail "$1: the database's script did not come back"
        in_root dpkg --purge percona-xtradb-cluster-server >/dev/null 2>&1
        in_root dpkg --install "/packages/understudy_${version}_$arch.deb" >/dev/null 2>&1
    done
    told "$1: clustercheck goes beside a package that ships one, and gives the name back"
}

# rpm's steps and scripts in a root of Debian, whose packages rpm does not know: hence without dependencies.
rpms() {
    fresh "$1"
    # On Debian it says each time that alien would be better.
    by_rpm() { rpm --root "$root" --nodeps "$@" 2> >(grep -vE 'use Alien|you know what you are doing' >&2); }
    rpm --root "$root" --initdb
    by_rpm --install "$root"/packages/understudy-"${version%-*}"-*.rpm
    in_root getent passwd understudy >/dev/null || fail "rpm: no user"
    runs "rpm, installed"
    use
    by_rpm --upgrade "$root"/packages/newer/understudy-"${newer_version%-*}"-*.rpm
    kept "rpm, upgraded"
    runs "rpm, upgraded"
    by_rpm --upgrade --oldpackage "$root"/packages/understudy-"${version%-*}"-*.rpm
    kept "rpm, downgraded"
    by_rpm --install "$root"/packages/understudy-clustercheck-*.rpm "$root"/packages/understudy-lab-*.rpm
    in_root understudy lab --version >/dev/null || fail "rpm: understudy lab does not start"
    by_rpm --erase understudy-clustercheck understudy-lab understudy
    has_not /usr/bin/understudy "rpm, erased"
    has_not /usr/bin/clustercheck "rpm, erased"
    kept "rpm, erased"
    told "rpm: installed, upgraded, downgraded and erased"
}

# The service under a real systemd, in front of a real cluster, with a client that writes all along.
service() {
    local suite=$1 booted=$cache/$1-systemd pid writes
    [ -d "$booted" ] || {
        cp -a "$cache/$suite" "$booted.new"
        chroot "$booted.new" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd systemd-sysv dbus >/dev/null 2>&1'
        mv "$booted.new" "$booted"
    }
    fresh "$suite-systemd"
    target/dist/understudy lab up galera --name packages >"$keys/stage"
    stage_is_up=yes
    host=$(sed -n 's/.*(a proxy listens here) *//p' "$keys/stage")
    $(sed -n 's/.*by socket only: *//p' "$keys/stage") <<'SQL'
CREATE USER setup@'%' IDENTIFIED BY 'for-an-hour';
GRANT ALL ON *.* TO setup@'%' WITH GRANT OPTION;
SQL
    systemd-nspawn --quiet --register=no --keep-unit --directory "$root" --boot >"$keys/boot" 2>&1 </dev/null &
    nspawn=$!
    within 60 "systemd has started" booted
    # From the package to a cluster that is protected, as a new user does it.
    local began_ms config=/etc/understudy/understudy.toml
    began_ms=$(date +%s%3N)
    inside dpkg --install "/packages/understudy_${version}_$arch.deb" >/dev/null
    inside env UNDERSTUDY_PASSWORD=for-an-hour understudy setup --host "${host%.*}.1" --user setup --monitor understudy_ha \
        --listen "$host:6033" --http "$host:6080" --yes >"$keys/setup" 2>&1 ||
        fail "setup: $(cat "$keys/setup"; inside journalctl --no-pager -u understudy | tail -n 20)"
    wrote "CREATE TABLE IF NOT EXISTS packages (id INT AUTO_INCREMENT PRIMARY KEY)" || fail "no statement goes through it"
    told "under systemd: a statement went through it $(($(date +%s%3N) - began_ms)) ms after dpkg --install began"
    [ "$(inside stat -c '%U %a' "$config")" = "understudy 600" ] || fail "others can read $config: $(inside stat -c '%U %a' "$config")"
    pid=$(main_pid)
    [ "$(inside stat -c %U "/proc/$pid")" = understudy ] || fail "it does not serve as its user"
    while [ ! -e "$keys/enough" ]; do
        wrote "INSERT INTO packages () VALUES ()" && echo good || echo bad
    done >"$keys/writes" 2>"$keys/errors" &
    writes=$!
    within 60 "twenty transactions" has_written 20
    inside dpkg --install "/packages/newer/understudy_${newer_version}_$arch.deb" >"$keys/upgrade"
    grep -q 'still runs the version before' "$keys/upgrade" || fail "the upgrade does not say that the old program runs"
    inside systemctl reload understudy
    [ "$(main_pid)" = "$pid" ] || fail "an upgrade or a reload has restarted it"
    within 60 "twenty more" has_written $(($(wc -l <"$keys/writes") + 20))
    touch "$keys/enough"
    wait "$writes"
    ! grep -q bad "$keys/writes" || fail "a statement failed during the upgrade: $(cat "$keys/errors")"
    told "under systemd: upgraded and reloaded, $(grep -c good "$keys/writes") transactions of new clients meanwhile, none failed"
    SECONDS=0
    inside systemctl restart understudy
    [ "$(main_pid)" != "$pid" ] || fail "it was not restarted"
    told "under systemd: restarted in $SECONDS s"
    # What stands still is ended by the watchdog, and started again.
    pid=$(main_pid)
    inside kill -STOP "$pid"
    within 60 "the watchdog has started it anew" restarted "$pid"
    within 30 "it serves again" wrote "SELECT 1"
    told "under systemd: stood still, and was started again"
    inside dpkg --remove understudy >/dev/null
    ! inside systemctl --quiet is-active understudy || fail "it runs, removed"
    has /etc/understudy/understudy.toml "removed, under systemd"
    inside systemctl poweroff
    wait "$nspawn" || true
    target/dist/understudy lab down --name packages >/dev/null
    stage_is_up=
}
booted() {
    leader=$(pgrep -P "$nspawn" | head -n 1) && [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'
}
inside() { nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup --root --wd=/ "$@"; }
has_written() { [ "$(wc -l <"$keys/writes")" -ge "$1" ]; }
main_pid() { inside systemctl show --property MainPID --value understudy; }
restarted() {
    local now
    now=$(main_pid)
    [ "$now" != 0 ] && [ "$now" != "$1" ] && inside systemctl --quiet is-active understudy
}
wrote() { mariadb --connect-timeout 5 -h "$host" -P 6033 -u sbtest -psbtest sbtest -e "$1" >/dev/null; }
within() { # seconds, what is waited for, the question
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" 2>/dev/null; do
        [ "$SECONDS" -lt "$until" ] || fail "never came: $what"
        sleep 0.2
    done
}

# The static program needs nothing of the system.
static() {
    local archive=("$packages"/understudy-*-linux-static.tar.gz)
    [ -e "${archive[0]}" ] || {
        told "no static tarball was made, so none was tested (make static)"
        return
    }
    rm -rf --one-file-system "$root"
    mkdir "$root"
    tar -C "$root" --strip-components 1 -xzf "${archive[0]}"
    chroot "$root" /understudy --version >/dev/null || fail "the static program does not run in an empty root"
    told "the static program runs in an empty root"
}

for suite in ${SUITES:-bookworm}; do
    debian "$suite"
    clustercheck "$suite"
    service "$suite"
done
rpms bookworm
static
rm -rf "$newer"
