set -euo pipefail
# What a step prints is in logs/ for the steps after it.
cp logs/03_03_top.out data/top.tsv
while IFS=$'\t' read -r hour path hits; do
  [[ $hour == hour ]] && continue
  printf '%02d h  %-12s %s\n' "$hour" "$path" "$hits"
done < data/top.tsv
