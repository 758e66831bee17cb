#!/usr/bin/env bash
# Runs the browser test of the page at the HTTP port (crates/web/browser). Installs Chromium and node (Debian's, as root) where they are missing,
# and fetches the driver and axe into target/page, in the versions of the lock file.
# usage: page.sh UNDERSTUDY [PICTURES]    the program, with understudy-lab beside it; a directory for its pictures
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?usage: page.sh UNDERSTUDY [PICTURES]}")
packages=()
command -v chromium >/dev/null || packages+=(chromium)
command -v npm >/dev/null || packages+=(nodejs npm)
if [ ${#packages[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || { echo "page: not root, and these packages are missing: ${packages[*]}; run: sudo apt-get install ${packages[*]}" >&2; exit 1; }
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
mkdir -p target/page
cp crates/web/browser/* target/page/
npm ci --silent --no-audit --no-fund --prefix target/page
exec node target/page/page.test.js "$program" ${2:+"$2"}
