#!/usr/bin/env bash
# Makes the packages of what `make dist` has built, into target/packages: deb and rpm of the program, of the lab, and of the names clustercheck
# and pyclustercheck; a tarball of the static program, where `make static` has made it; what it is made of (SBOM, CycloneDX); and checksums.
#   VERSION=1.2.3   another version than Cargo.toml's
#   SIGN_KEY=ID     the gpg key that signs SHA256SUMS; without one it is not signed
#   OUT=DIRECTORY   another place; QUICK=1  only deb and rpm
# It takes nfpm (https://nfpm.goreleaser.com), which makes both formats of one description, and cargo-sbom; they are installed into
# target/tools where they are missing, for which the first takes go.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() {
    echo "packages: $*" >&2
    exit 1
}

sign() { # a file of checksums
    gpg --batch --yes --local-user "$SIGN_KEY" --armor --output "$1.asc" --detach-sign "$1"
}
# `SIGN_KEY=ID scripts/packages.sh sign FILE`: signs later, or on another machine.
[ "${1:-}" != sign ] || {
    sign "$2"
    exit 0
}

dist=${DIST:-target/dist}
out=${OUT:-target/packages}
stage=target/packages.stage
tools=$PWD/target/tools
export PATH=$tools:$tools/bin:$PATH
[ -x "$dist/understudy" ] && [ -x "$dist/understudy-lab" ] || stop "$dist/understudy or understudy-lab is missing: make dist"
command -v nfpm >/dev/null || {
    command -v go >/dev/null || stop "nfpm is missing, and go to install it: apt-get install golang"
    GOBIN=$tools go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0
}
command -v cargo-sbom >/dev/null || cargo install --locked --quiet --root "$tools" cargo-sbom

version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}
homepage=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
maintainer=${MAINTAINER:-The Understudy authors <understudy@$(echo "$homepage" | cut -d / -f 3)>}
arch=$(dpkg --print-architecture 2>/dev/null || echo amd64)
# The same source makes the same files: times in them are those of the last commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# The newest glibc that either program asks for.
glibc=$(objdump -T "$dist/understudy" "$dist/understudy-lab" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 | cut -d _ -f 2)

rm -rf "$out" "$stage"
mkdir -p "$out" "$stage"/{units,docs,schemas,examples,licenses,mysqlchk,clustercheck-man}
for program in understudy understudy-lab; do
    # Names and lines for debuggers are in files of their own.
    objcopy --only-keep-debug "$dist/$program" "$stage/$program.debug"
    objcopy --strip-all --remove-section=.comment --remove-section=.note --add-gnu-debuglink="$stage/$program.debug" "$dist/$program" "$stage/$program"
done

# Copied by hand the program is in /usr/local/bin, which the units and examples have; packages have /usr/bin.
for unit in contrib/understudy*.service contrib/understudy*.socket; do
    sed 's#/usr/local/bin/#/usr/bin/#g' "$unit" >"$stage/units/$(basename "$unit")"
done
for example in contrib/mysqlchk*; do
    sed -e 's#/usr/local/bin/#/usr/bin/#g' -e '/ln -f/d' "$example" >"$stage/mysqlchk/$(basename "$example")"
done
cp docs/*.md "$stage/docs/"
cp docs/schemas/*.json "$stage/schemas/"
cp CHANGELOG.md "$stage/docs/NEWS.md"
cp LICENSE-* "$stage/licenses/"
cp contrib/understudy.rules.yml contrib/grafana-dashboard.json contrib/webhook-receiver.py "$stage/examples/"
# Without that time, which would have C code built anew, now and in the next build that is none for packages.
env --unset SOURCE_DATE_EPOCH cargo run --quiet --locked --profile test -p understudy --example manual --features manual -- "$stage"
for name in clustercheck pyclustercheck; do
    printf '.TH %s 1\n.SH NAME\n%s \\- whether the database of this machine may take traffic, told as HTTP\n.SH DESCRIPTION\nThe command %s as Percona has it, answered by\n.BR understudy (1).\n.SH SEE ALSO\n.BR understudy-check (1),\n/usr/share/doc/understudy/replace-clustercheck.md\n' \
        "$name" "$name" "$name" >"$stage/clustercheck-man/$name.1"
done
gzip -9n "$stage"/{man,lab-man,clustercheck-man}/*
cat >"$stage/changelog.yaml" <<END
- semver: $version
  date: $(date --utc --date "@$SOURCE_DATE_EPOCH" +%FT%TZ)
  packager: $maintainer
  changes:
    - note: what is new is in /usr/share/doc/understudy/NEWS.md
END
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: understudy\nSource: %s\n\n' "$homepage"
    printf 'Files: *\nCopyright: %s\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n' "$(sed -n 's/^Copyright (c) //p' LICENSE-MIT)"
    sed -n '/^Permission/,$p' LICENSE-MIT | sed -e 's/^$/./' -e 's/^/ /'
    printf '\nLicense: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n'
} >"$stage/copyright"

# A package's description for one format. Only rpm has kinds of files (documentation, license); licenses are in `copyright` for deb.
described() {
    local package=$1 packager=$2 line kind from to file
    sed -e "s#@STAGE@#$stage#g" -e "s#@VERSION@#$version#g" -e "s#@ARCH@#$arch#g" -e "s#@GLIBC@#$glibc#g" \
        -e "s#@MAINTAINER@#$maintainer#g" -e "s#@HOMEPAGE@#$homepage#g" "packaging/$package.yaml" | while IFS= read -r line; do
        case $line in "  # every "*) ;; *)
            printf '%s\n' "$line"
            continue
            ;;
        esac
        read -r _ _ kind from to <<<"$line"
        [ "$packager $kind" != "deb license" ] || continue
        for file in "$from"/*; do
            printf -- '  - { src: "%s", dst: "%s/%s", file_info: { mode: 0644 }' "$file" "$to" "${file##*/}"
            [ "$packager" = deb ] || printf ', type: %s' "$kind"
            printf ' }\n'
        done
    done
}
for package in understudy understudy-lab understudy-clustercheck; do
    for packager in deb rpm; do
        described "$package" "$packager" >"$stage/$package.yaml"
        nfpm package --config "$stage/$package.yaml" --packager "$packager" --target "$out/" >/dev/null
    done
done

[ -z "${QUICK:-}" ] || {
    rm -rf "$stage"
    exit 0
}

archive() { # what is in $stage, as an archive; the arguments are its name and tar's for the compression
    tar -C "$stage" --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" --sort=name -c "${@:2}" -f "$out/$1"
}
archive "understudy-$version-$arch.debug.tar.xz" -J understudy.debug understudy-lab.debug
static=target/$(uname -m)-unknown-linux-musl/dist/understudy
if [ -x "$static" ]; then
    name=understudy-$version-$(uname -m)-linux-static
    mkdir -p "$stage/$name"
    objcopy --strip-all "$static" "$stage/$name/understudy"
    cp -r LICENSE-* CHANGELOG.md docs contrib "$stage/man" "$stage/completions" "$stage/$name/"
    archive "$name.tar.gz" -z "$name"
    # What packaging/Containerfile is built of.
    image=$out.image
    rm -rf "$image"
    install -D -m 755 "$stage/$name/understudy" "$image/usr/bin/understudy"
    mkdir -p "$image/var/lib/understudy" "$image/etc/understudy"
else
    echo "packages: no static tarball, because $static is missing (make static)"
fi

cargo sbom --cargo-package understudy --output-format cyclone_dx_json_1_4 >"$out/understudy-$version.cdx.json"
(cd "$out" && sha256sum -- * >SHA256SUMS)
[ -z "${SIGN_KEY:-}" ] || sign "$out/SHA256SUMS"
rm -rf "$stage"
ls -l "$out"
