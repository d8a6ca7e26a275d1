#!/usr/bin/env bash
# Runs Python in the virtual machine: virtual.sh USER ARGUMENT…, with control groups that are delegated to that user, and images.
set -euo pipefail

user=$1
shift
home=$(getent passwd "$user" | cut -d : -f 6)
run=/run/assayd-oci
[ "$user" = root ] || run=$home/run
images=/checkout/images-unpacked
[ "$(stat --format=%U "$images")" = "$user" ] || chown --recursive --no-dereference "$user:" "$images"
exec systemd-run --quiet --wait --pipe --uid="$user" --property=Delegate=yes --working-directory="$home" \
    --setenv=HOME="$home" --setenv=PYTHONPATH=/checkout/daemon:/checkout/site --setenv=PYTHONDONTWRITEBYTECODE=1 --setenv=PYTHONUNBUFFERED=1 \
    --setenv=TESTS_SLOWER_BY=10 --setenv=ASSAYD_ENGINE__KIND=oci --setenv=ASSAYD_ENGINE__IMAGES_DIR="$images" \
    --setenv=ASSAYD_ENGINE__RUN_DIR="$run" python3.11 "$@"
