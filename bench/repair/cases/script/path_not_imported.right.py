import csv
import json
import sys
from pathlib import Path

rows = list(csv.DictReader(sys.stdin))
regions = sorted({row["region"] for row in rows})
target = Path("regions.json")
target.write_text(json.dumps(regions))
print(target.name, len(regions))
