#!/usr/bin/env bash
# Runs Python in the virtual machine: virtual.sh USER ARGUMENT…, with control groups that are delegated to that user, and images.
set -euo pipefail

user=$1
shift
home=$(getent passwd "$user" | cut -d : -f 6)
run=/run/assayd-oci
[ "$user" = root ] || run=$home/run
service=(systemd-run --quiet --wait --pipe --uid="$user" --property=Delegate=yes --working-directory="$home"
    --setenv=HOME="$home" --setenv=PYTHONPATH=/checkout/daemon:/checkout/site --setenv=PYTHONDONTWRITEBYTECODE=1
    --setenv=TESTS_SLOWER_BY=10 --setenv=ASSAYD_ENGINE__KIND=oci --setenv=ASSAYD_ENGINE__IMAGES_DIR="$home/images"
    --setenv=ASSAYD_ENGINE__RUN_DIR="$run")
# Unpacked by the user who uses them.
[ -e "$home/images" ] || "${service[@]}" python3.11 /checkout/tests/support/machines/unpack.py /checkout/archives
exec "${service[@]}" python3.11 "$@"
