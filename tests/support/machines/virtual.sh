#!/bin/bash
# Runs tests in the virtual machine: virtual.sh WHO PYTEST-ARGUMENT…, as root or as the user `tester`, whose control groups are delegated.
set -euo pipefail
who=$1; shift
home=$(getent passwd "$who" | cut -d: -f6)
places=(HOME="$home" PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/checkout/daemon:/checkout/site TESTS_SLOWER_BY=10
    PYTHONDONTWRITEBYTECODE=1 ASSAYD_ENGINE__IMAGES_DIR="$home/images" ASSAYD_ENGINE__RUN_DIR="$home/run" XDG_RUNTIME_DIR="/run/user/$(id -u "$who")")
mkdir -p "$home/work"; chown "$who" "$home/work"
unit=(systemd-run --quiet --wait --pipe --uid="$who" -p Delegate=yes -p WorkingDirectory="$home/work")
for each in "${places[@]}"; do unit+=("--setenv=$each"); done
"${unit[@]}" python3.11 -c '
import sys; from pathlib import Path; from assayd.engines.oci.images import ImageStore; import os
store = ImageStore(Path(os.environ["ASSAYD_ENGINE__IMAGES_DIR"]))
for archive in sorted(Path("/checkout/archives").glob("*.tar")): print(store.load(archive).name, flush=True)'
"${unit[@]}" python3.11 -m pytest --rootdir=/checkout -c /checkout/pyproject.toml -p no:cacheprovider --basetemp="$home/temp" -q "$@"
