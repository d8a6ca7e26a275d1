#!/usr/bin/env bash
# See that Chromium is there, with which tests look at the console.
set -euo pipefail

if command -v chromium >/dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" -ne 0 ]; then
    # Without it, the tests that need it are not among those that run.
    printf 'browser: there is no chromium (Debian: apt-get install chromium); tests of the console in a browser need it\n' >&2
    exit 0
fi
"$(dirname "${BASH_SOURCE[0]}")/packages.sh" chromium
