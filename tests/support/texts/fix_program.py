"""A program that a `command` provider runs: it plays a list of steps, one per request.

    fix_program.py FOLDER < REQUEST

The first line of the passage, `# NAME`, names the play: FOLDER/NAME.json, a list of steps. How many of them
are over is kept beside it. A step is a text, which is the fix; or null, at which it writes to FOLDER/asked
and says nothing more until it is ended.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def main() -> None:
    folder, passage = Path(sys.argv[1]), json.load(sys.stdin)["passage"]["text"]
    play = folder / f"{passage.splitlines()[0].removeprefix('# ')}.json"
    with play.with_suffix(".count").open("a") as count:
        count.write(".")
        place = count.tell() - 1
    step = json.loads(play.read_text())[place]
    if step is None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the daemon may be killed meanwhile
        (folder / "asked").write_text("asked")
        signal.pause()
    print(json.dumps({"patched_code": step, "fix_reason": f"Step {place + 1}."}))


if __name__ == "__main__":
    main()
