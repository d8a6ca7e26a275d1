#!/usr/bin/env bash
# See that `ip` is there, with which tests make network namespaces of their own.
set -euo pipefail

if command -v ip >/dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" -ne 0 ]; then
    # Without root the tests that need it are not among those that run.
    printf 'namespaces: there is no ip (Debian: apt-get install iproute2); tests in namespaces need it, and root\n' >&2
    exit 0
fi
"$(dirname "${BASH_SOURCE[0]}")/packages.sh" iproute2
