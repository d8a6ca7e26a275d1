#!/usr/bin/env bash
# What containers without a container engine need on this machine: crun, and control groups that are mounted.
#
# Decides: what is installed, and what is mounted for the command alone. Leaves to others: images, everything else.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=deploy/dev/cgroups.sh
. "$here/cgroups.sh"

usage() {
    cat <<TEXT
usage: oci.sh install | run COMMAND…

  install  install crun where neither it nor runc is there; as root on a Debian-like system, else say what to do
  run      run a command; where control groups are not mounted, they are for it alone
TEXT
}

say() { printf 'oci: %s\n' "$*" >&2; }

has_runtime() { [ -x /usr/bin/crun ] || [ -x /usr/local/bin/crun ]; }

install() {
    if has_runtime; then return; fi
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        say "crun is not installed, and only root on a Debian-like system can do that here"
        say "what to do: install the package crun of your distribution"
        exit 1
    fi
    "$here/packages.sh" crun
}

run() {
    # An ordinary user's service manager gives a group of control groups of the command's own.
    if [ "$(id -u)" -ne 0 ] && [ -S "${XDG_RUNTIME_DIR:-/nowhere}/systemd/private" ]; then
        exec systemd-run --user --scope --quiet --property=Delegate=yes -- "$@"
    fi
    # The controllers that containers are limited by; a machine that systemd has booted has them mounted.
    if [ "$(id -u)" -ne 0 ] || cgroups_are_mounted memory pids cpu; then exec "$@"; fi
    exec unshare --mount --propagation slave -- bash "$here/oci.sh" _mounted "$@"
}

case "${1:-}" in
    install) install ;;
    run) shift; run "$@" ;;
    _mounted) shift; mount_cgroups; exec "$@" ;;
    -h | --help | help) usage ;;
    *) usage >&2; exit 2 ;;
esac
