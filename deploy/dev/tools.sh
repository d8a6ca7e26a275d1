#!/usr/bin/env bash
# See that the programs are there that the tests need beside an engine: `ip`, for network namespaces of their own.
set -euo pipefail

if command -v ip >/dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    # Without root the tests that need it are not among those that run.
    printf 'tools: there is no ip (Debian: apt-get install iproute2); tests in network namespaces need it\n' >&2
    exit 0
fi
printf 'tools: installing the distribution'\''s iproute2\n' >&2
export DEBIAN_FRONTEND=noninteractive
apt-cache show iproute2 >/dev/null 2>&1 || apt-get -qq update
apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install -y --no-install-recommends iproute2 \
    >/dev/null </dev/null
