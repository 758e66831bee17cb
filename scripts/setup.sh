#!/usr/bin/env bash
# Installs what the lab and the tests need on Debian 12 or 13, and leaves no service running.
set -euo pipefail

command -v cargo >/dev/null || {
    echo "setup: cargo is missing; install Rust first (https://rustup.rs or the package rustup)" >&2
    exit 1
}

packages=(mariadb-server galera-4 mariadb-backup iproute2 sysbench haproxy rsync socat procps util-linux)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || {
        echo "setup: not root, and these packages are missing: ${missing[*]}; run: sudo apt-get install ${missing[*]}" >&2
        exit 1
    }
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
fi
