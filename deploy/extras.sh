#!/usr/bin/env bash
# Add to an installed assayd what it does not come with. Safe to repeat; what is added outlasts upgrades.
#
#   assayd-extras install NAME…    libraries of providers (anthropic, gemini, openai), of `assay mcp`, `assay lsp`, a cluster and traces (otel)
#   assayd-extras add PACKAGE…     other distributions, e.g. a validator: a wheel, or a name that pip finds
#   assayd-extras list             what has been added
#   assayd-extras remove           take everything away that was added
#
# It goes below /opt/assayd, where the daemon's own environment looks last: what assayd comes with stays as it is.
# Needs pip (Debian: python3-pip). Environment: PIP_INDEX_URL and what else pip understands.
set -euo pipefail

lib=${ASSAYD_LIB:-/usr/lib/assayd}
added=${ASSAYD_ADDED:-/opt/assayd}
locks=${ASSAYD_LOCKS:-/usr/share/assayd/requirements}

die() { printf 'assayd-extras: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# pip of the system, for the environment of the daemon: what that has already is not fetched again.
pip() {
    python3 -m pip --version >/dev/null 2>&1 || die "pip is missing; Debian: apt-get install python3-pip"
    umask 022
    python3 -m pip -q --disable-pip-version-check --no-input --python "$lib/bin/python3" install --prefix "$added" "$@"
}

case "${1:-}" in
    install)
        shift
        [ $# -gt 0 ] || die "name what to install: anthropic, cluster, gemini, lsp, mcp, openai or otel"
        for name in "$@"; do
            [ -f "$locks/$name.txt" ] || die "there is no extra '$name'; there are: $(basename -s .txt -a "$locks"/*.txt | grep -vx run | xargs)"
            pip --no-deps --require-hashes -r "$locks/$name.txt"
        done
        ;;
    add)
        shift
        [ $# -gt 0 ] || die "name a wheel, or a distribution that pip finds"
        kept=$(mktemp)
        trap 'rm -f "$kept"' EXIT
        sed -n 's/^\([a-z0-9._-]*==[^ ]*\) .*/\1/p' "$locks/run.txt" >"$kept"
        pip --constraint "$kept" "$@"
        ;;
    list) find "$added" -maxdepth 5 -name '*.dist-info' -printf '%f\n' 2>/dev/null | sed 's/\.dist-info$//; s/-/ /' | sort ;;
    remove) rm -rf "${added:?}" ;;
    -h | --help | help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
esac
if [ "$1" != list ] && [ -d /run/systemd/system ]; then
    printf 'assayd-extras: the daemon sees it after: systemctl restart assayd.service\n' >&2
fi
