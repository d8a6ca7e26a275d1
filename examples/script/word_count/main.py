import json
import sys
from pathlib import Path

from words import count

counts = count(Path(sys.argv[1]).read_text())
Path("counts.json").write_text(json.dumps(counts, indent=2))
print(", ".join(f"{word} {number}" for word, number in list(counts.items())[:3]))
