#!/usr/bin/env bash
# Make the virtual environment: venv.sh PYTHON FOLDER run|dev. Every package is checked against its hash.
#
# `run` installs what daemon and client need, in a quarter of the time; `dev` adds what tests and checks need.
set -euo pipefail

python=$1
venv=$2
for=$3
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

command -v "$python" >/dev/null || die "there is no '$python'; name one that is 3.11 or newer: make PYTHON=…"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "assayd needs Python 3.11 or newer and '$python' is $("$python" -V 2>&1); name another: make PYTHON=…"

# Debian keeps this part of the standard library in a package of its own.
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        die "'$python' cannot make virtual environments (Debian: apt-get install python3-venv)"
    fi
    printf 'setup: installing python3-venv\n' >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-cache show python3-venv >/dev/null 2>&1 || apt-get -qq update
    apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends python3-venv >/dev/null </dev/null
fi

if ! "$venv/bin/python" -c '' 2>/dev/null; then
    printf 'setup: making %s with %s (the first time takes about a minute)\n' "$venv" "$("$python" -V)" >&2
    "$python" -m venv --clear "$venv"
fi
pip() { "$venv/bin/python" -m pip -qq --disable-pip-version-check --no-input "$@"; }
# A lock names every package. If pip looked for dependencies itself, it would stop at the first one in brackets, such
# as google-auth[requests], that has a newer release than the lock.
if [ "$for" = run ]; then
    pip install --no-deps --require-hashes -r requirements/run.txt -r requirements/build.txt
else
    pip install --no-deps --require-hashes -r requirements/dev.txt
    pip check >&2
fi
pip install --no-deps --no-build-isolation -e .
if [ "$for" = run ]; then exit; fi
# Apart: it wants an older typer than the command line is written for.
pip install --upgrade --target "$venv/generator" --no-deps --require-hashes -r requirements/generator.txt
# Tests start our programs by the hundred. Compiled here once, also where the environment forbids to write bytecode.
"$venv/bin/python" -m compileall -q daemon
