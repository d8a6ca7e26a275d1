#!/usr/bin/env bash
# Build the Debian package: build.sh WHEEL FOLDER [REVISION]. Prints its path. The same input gives the same bytes.
#
# The files are those that install.sh lays out. The package is for the Python that it is built with, since some
# of the libraries in it are compiled for that one.
set -euo pipefail

wheel=$1
folder=$2
revision=${3:-1}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
python=${PYTHON:-/usr/bin/python3}

version=$(basename "$wheel" | cut -d- -f2)-$revision
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
next=$("$python" -c 'import sys; print("%d.%d" % (sys.version_info[0], sys.version_info[1] + 1))')
architecture=$(dpkg --print-architecture)
# The newest thing in the wheel; every file gets this time.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 1767225600)}
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/assayd
umask 022

"$here/../install.sh" install --root "$stage" "$wheel"
# What an installer keeps for itself: places on this machine, and hashes of what was compiled since.
find "$stage/usr/lib/assayd" \( -name direct_url.json -o -name RECORD -o -name INSTALLER -o -name REQUESTED \) -delete
rm -rf "$stage/usr/lib/assayd/include"

mkdir "$stage/DEBIAN"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@PYTHON@/$minor/" -e "s/@NEXT@/$next/" \
    -e "s/@SIZE@/$(du -sk --apparent-size "$stage" | cut -f1)/" "$here/control.in" >"$stage/DEBIAN/control"
printf '/etc/assayd/assayd.toml\n/etc/assayd/assayd.env\n' >"$stage/DEBIAN/conffiles"
install -m 0755 "$here/postinst" "$here/prerm" "$here/postrm" "$stage/DEBIAN/"
(cd "$stage" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$folder"
dpkg-deb --root-owner-group -Zzstd -z9 --build "$stage" "$folder/assayd_${version}_$architecture.deb" >&2
printf '%s\n' "$folder/assayd_${version}_$architecture.deb"
