set -euo pipefail
# Keep the header and the lines that have an amount; write what was left out for people to look at.
awk -F, 'NR == 1 || $4 + 0 > 0' data/sales.csv > tmp/clean.csv
awk -F, 'NR > 1 && $4 + 0 <= 0' data/sales.csv > data/rejected.csv
printf '%s of %s lines kept\n' "$(tail -n +2 tmp/clean.csv | wc -l)" "$(tail -n +2 data/sales.csv | wc -l)"
