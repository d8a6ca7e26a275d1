"""The scripted provider: replies to a request with the text that was prepared for its passage.

    python -m bench.repair.program REPLIES.json < REQUEST

REPLIES is a list of [broken, text]. A passage may be the code of an answer, without what stands around it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Reply to one request."""
    replies = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    passage = json.load(sys.stdin)["passage"]["text"].strip()
    found = [text for broken, text in replies if passage in broken]
    if len(found) != 1:
        sys.exit(f"{len(found)} replies are prepared for this passage")
    print(json.dumps({"patched_code": found[0], "fix_reason": "Prepared."}))


if __name__ == "__main__":
    main()
