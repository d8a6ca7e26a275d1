set -euo pipefail
head -n 1 data/sales.csv > tmp/north.csv
grep -E '^(north|nordic),' data/sales.csv | sed -E 's/,/;/' >> tmp/north.csv
wc -l < tmp/north.csv
cp tmp/north.csv data/north.csv
