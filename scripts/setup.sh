#!/usr/bin/env bash
# Installs what the build, the lab and the tests need on Debian 12 or 13, and leaves no service running, now or after a restart.
# Says in one sentence what to do where it cannot: no Rust, not Debian, not root.
set -euo pipefail

stop() {
    echo "setup: $*" >&2
    exit 1
}

rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
command -v cargo >/dev/null || stop "cargo is missing: install Rust $rust_wanted or newer first (https://rustup.rs)"
rust=$(cargo --version | cut -d ' ' -f 2)
[ "$(printf '%s\n' "$rust_wanted" "$rust" | sort -V | head -n 1)" = "$rust_wanted" ] ||
    stop "Rust is $rust and $rust_wanted or newer is needed: run \`rustup update\`"

# The lab: servers and their network, keepalived for virtual addresses, xinetd and systemd for the ways clustercheck is started. The rest:
# sysbench, HAProxy, MHA, nginx and pt-query-digest to compare with; Prometheus and its promtool to check the metrics, the alerts and the dashboard; a C compiler for SQLite and aws-lc; curl for the commands of the documentation;
# PyMySQL, a driver that goes by flags, and drivers of Perl, PHP and Ruby, for tests with clients that others wrote; patchelf and Debian's keys for scripts/servers.sh.
packages=(mariadb-server galera-4 galera-arbitrator-4 mariadb-backup iproute2 rsync socat procps util-linux sysbench haproxy mha4mysql-manager mha4mysql-node keepalived
    nginx-light xinetd systemd percona-toolkit prometheus gcc g++ libc6-dev curl git python3-pymysql libdbd-mysql-perl php-cli php-mysql ruby ruby-mysql2
    patchelf debian-archive-keyring)
command -v dpkg-query >/dev/null ||
    stop "this is not Debian, so nothing was installed: install by hand what these Debian packages hold: ${packages[*]};" \
        "then run: cargo build --release --locked -p understudy && target/release/understudy lab demo"

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || stop "not root, and these packages are missing: ${missing[*]}; run: sudo apt-get install ${missing[*]}"

# The packages must not start their services: the lab starts its own servers. A policy of ours is removed again.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
echo "setup: installing ${missing[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

# Nor start them with the machine. Only what was installed just now: a server that was here before is somebody's.
if command -v systemctl >/dev/null; then
    for package in "${missing[@]}"; do
        case $package in
            mariadb-server) systemctl disable --quiet mariadb ;;
            galera-arbitrator-4) systemctl disable --quiet garb ;;
            haproxy | keepalived | xinetd | prometheus) systemctl disable --quiet "$package" ;;
            nginx-light) systemctl disable --quiet nginx ;;
        esac
    done
fi
