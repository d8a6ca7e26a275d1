#!/usr/bin/env bash
# Get what the system tests need and a checkout does not: tools.sh FOLDER. Prints nothing when all is there.
#
# Installed from the distribution: podman, systemd-nspawn, mmdebstrap, groff, and Node where there is none. Only unpacked, into FOLDER: promtool.
# Fetched by npm, as locked with hashes: what the client for TypeScript is made with.
set -euo pipefail

folder=$(mkdir -p "$1" && cd "$1" && pwd -P)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

"$here/packages.sh" podman systemd-container systemd mmdebstrap groff-base
command -v npm >/dev/null || "$here/packages.sh" nodejs npm
typescript=$here/../../client/typescript
if [ "$typescript/package-lock.json" -nt "$typescript/node_modules/.package-lock.json" ]; then
    npm ci --prefix "$typescript" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
fi

if [ ! -x "$folder/promtool" ]; then
    echo "tools: fetching promtool from the distribution's package prometheus" >&2
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # The package's own service is not wanted.
    (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download prometheus)
    dpkg-deb -x "$work"/prometheus_*.deb "$work/root"
    install -m 0755 "$work/root/usr/bin/promtool" "$folder/promtool"
fi
