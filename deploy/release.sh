#!/usr/bin/env bash
# Build what a release consists of, twice, and compare: release.sh PYTHON FOLDER
#
# Builds the commit that is checked out: wheel, source distribution, Debian package, wheels of the client and its parts,
# the bill of materials of what the package installs, and SHA256SUMS. The second build differs in path, umask, time
# zone and locale, and makes its wheel from the source distribution. PYTHON has `build` and hatchling.
set -euo pipefail

python=$(realpath -s "$1")
mkdir -p "$2"
folder=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

die() { printf 'release: %s\n' "$*" >&2; exit 1; }

[ -z "$(git -C "$here" status --porcelain)" ] || die "commit or remove your changes first; a release is a commit"
SOURCE_DATE_EPOCH=$(git -C "$here" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # source, target, what the wheel is built from
    local source=$1 target=$2 part
    mkdir -p "$source" "$target"
    git -C "$here" archive HEAD | tar -x -C "$source"
    if [ "$3" = tree ]; then
        "$python" -m build --no-isolation --sdist --wheel --outdir "$target" "$source"
    else
        "$python" -m build --no-isolation --outdir "$target" "$source"
    fi
    for part in "$source"/client/pyproject.toml "$source"/client/*/pyproject.toml; do
        "$python" -m build --no-isolation --wheel --outdir "$target" "$(dirname "$part")"
    done
    "$source/deploy/debian/build.sh" "$target"/assayd-*.whl "$target"
    mkdir "$source/.installed"
    dpkg-deb --fsys-tarfile "$target"/assayd_*.deb | tar -x -C "$source/.installed" ./usr/lib/assayd
    "$source/.installed/usr/lib/assayd/bin/python3" -I -m assayd --sbom \
        >"$target/$(basename "$target"/assayd-*.tar.gz .tar.gz).cdx.json"
    (cd "$target" && LC_ALL=C sha256sum -- * >SHA256SUMS)
}

printf 'release: building\n' >&2
build "$work/first" "$work/1" tree >"$work/log" 2>&1 || die "the build failed: $(tail -n 20 "$work/log")"
printf 'release: building again, elsewhere\n' >&2
(umask 077; export TZ=Asia/Tokyo LC_ALL=C.UTF-8; build "$work/second/and/elsewhere" "$work/2" sdist) >"$work/log" 2>&1 ||
    die "the second build failed: $(tail -n 20 "$work/log")"
for file in "$work/1"/*; do
    cmp "$file" "$work/2/$(basename "$file")" || die "$(basename "$file") is not reproducible"
done
rm -rf "${folder:?}"/*
install -m 0644 "$work/1"/* "$folder"
printf 'release: both builds are the same, byte for byte\n' >&2
cat "$folder/SHA256SUMS"
