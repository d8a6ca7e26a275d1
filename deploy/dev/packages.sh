#!/usr/bin/env bash
# Install packages of the distribution that are missing: packages.sh NAME… No service of theirs is started.
set -euo pipefail

say() { printf 'packages: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

apt() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
}

installed() { [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# A package asks this program whether it may start its services.
forbid_services() {
    local policy=/usr/sbin/policy-rc.d status=0
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 0755 "$policy"
        # shellcheck disable=SC2064
        trap "rm -f '$policy'" EXIT
        return
    fi
    "$policy" docker start >/dev/null 2>&1 || status=$?
    [ "$status" -eq 101 ] || die "$policy lets packages start services: install ${missing[*]} by hand, then start again"
}

command -v dpkg-query >/dev/null 2>&1 || die "this needs a Debian-like system; install what stands for: $*"
missing=()
for name in "$@"; do installed "$name" || missing+=("$name"); done
[ "${#missing[@]}" -gt 0 ] || exit 0
[ "$(id -u)" -eq 0 ] || die "not installed: ${missing[*]}; root can: apt-get install --no-install-recommends ${missing[*]}"
forbid_services
say "installing ${missing[*]} (no service is started now; where systemd runs, a package may enable one for the next boot)"
for name in "${missing[@]}"; do
    apt-cache show "$name" >/dev/null 2>&1 || { apt update || say "apt-get update had errors"; break; }
done
apt install -y --no-install-recommends "${missing[@]}" || die "apt-get could not install ${missing[*]}: see its messages above"
