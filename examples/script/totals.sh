#!/usr/bin/env bash
# Adds up the third column by the first: `north apples 3` and `north pears 4` make `north 7`.
set -euo pipefail

sorted=$(mktemp)
trap 'rm -f "$sorted"' EXIT
sort >"$sorted"

declare -A totals=()
while read -r region _ count; do
    totals[$region]=$((${totals[$region]:-0} + count))
done <"$sorted"

for region in "${!totals[@]}"; do
    printf '%s %d\n' "$region" "${totals[$region]}"
done | sort | tee totals.txt
