"""Starts a daemon with 60 attempts, a batch that lost 12 of 200 lines, and a console: for a reader's trial.

    make images-oci; sudo deploy/dev/oci.sh run .venv/bin/python -m bench.console_trial [--port N] [--once]

Three kinds of failure are planted. Which they are, and how many items each has, is in `PLANTED`, and not on
the screen: the reader is to find out by the console or by `assay`. One of them was repaired, one extractor
was made from words, and the newest attempt, `quarter.py`, failed by a slip that a person can mend. The
program prints the reader's tasks and the socket, ends by Ctrl+C and leaves nothing; with --once it ends as
soon as all exists. The provider `written` always answers with the same extractor, for paths such as
`/archive/delta/2024/sales_Q1.csv`: supplier, year and quarter. It can't write anything else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from assayd_client import Document, PlainClient
from bench.daemon import daemon

ROOT = Path(__file__).parents[1]
ITEMS = 200
SINGLE = 59
READS = """\
import re


def extract(path: str) -> dict:
    supplier, year, file = path.strip("/").split("/")[1:4]
    quarter = int(re.search(r"_Q([1-4])", file)[1])
    return {"supplier": supplier, "year": int(year), "quarter": quarter}
"""
HUNGRY = READS.replace(
    "    quarter = int",
    "    page = 0\n    while not file.endswith(str(page)):\n        page += 2\n    quarter = int",
)
CURIOUS = READS.replace("import re\n", "import re\nimport requests\n")
SLIP = READS.replace("[1:4]", "[2:4]")
PLANTED = {
    "supplier `polar` names its files without a quarter, so that nothing is found in them": 5,
    "the program for supplier `tundra` waits for a page number that never comes": 3,
    "the program for supplier `atoll` imports requests, which the policy does not allow": 4,
}
PATHS = ("/archive/delta/2024/sales_Q1.csv", "/archive/mesa/2023/sales_Q3.csv")
CASE = {"name": "first", "path": PATHS[0], "expected": {"supplier": "delta", "quarter": 1}}
TASKS = f"""\
Tasks:
1. Find out why 12 lines of the batch nightly-sales failed: how many reasons, and how many lines each.
2. Mend quarter.py, the newest attempt, by hand.
3. In another terminal, with ASSAY_SOCKET set, run `assay generate extractor`. Ask for supplier, year and
   quarter of sales files. The provider `written` knows only paths such as these:
     {PATHS[0]}
     {PATHS[1]}
   An example: {json.dumps(CASE)}
"""
PROVIDER = """\
import json, sys

asked = json.load(sys.stdin)
code = {code!r}
if not asked["passage"]["name"]:
    code = code.replace("[1:4]", "[0:3]")
print(json.dumps({{"code": code, "reason": "The first folder is the archive; the supplier comes after it."}}))
"""


def lines() -> Iterator[bytes]:
    """Return the submissions, the failing ones between the others."""
    for number in range(ITEMS):
        supplier, code, file = (
            ["delta", "fjord", "mesa", "ridge"][number % 4],
            READS,
            f"sales_Q{number % 4 + 1}.csv",
        )
        if number % 40 == 4:
            supplier, file = "polar", f"sales_{number % 12 + 1:02}.csv"
        elif number % 67 == 7:
            supplier, code = "tundra", HUNGRY
        elif number % 50 == 3:
            supplier, code = "atoll", CURIOUS
        path = f"/archive/{supplier}/{2018 + number % 7}/{file}"
        yield (
            json.dumps(
                {
                    "kind": "extractor",
                    "payload": {"code": f"# {number}\n{code}", "sample_paths": [path]},
                    "labels": {"category": "sales", "platform": supplier},
                    "overrides": {"resources": {"unit_timeout_s": 1}},
                }
            ).encode()
            + b"\n"
        )


def fill(client: PlainClient) -> Document:
    """Have the batch run, one attempt repaired, one extractor made from words, and the single attempts."""
    batch = client.send_batch(lines(), name="nightly-sales", concurrency=4)
    for event in client.batch_events(batch["id"]):
        counts = event.body
    refused = client.attempts(batch=batch["id"], label=["platform=atoll"], limit=1)["attempts"][0]
    for _ in client.repair_events(client.repair(refused["id"], provider="rules")["id"]):
        pass
    made = client.generate(
        kind="extractor",
        intent="supplier, year and quarter of a sales file",
        context={"sample_paths": PATHS, "cases": [CASE]},
        provider="written",
    )
    for _ in client.generation_events(made["id"]):
        pass
    for submission in singles():
        client.submit(submission, wait_s=60)
    return counts


def singles() -> Iterator[Document]:
    """Return the single submissions; the last one fails."""
    codes = [CURIOUS if number % 7 == 5 else READS for number in range(SINGLE)]
    for number, code in enumerate([*codes, SLIP]):
        year, file = 2018 + number % 7, "quarter.py" if code == SLIP else f"report_{number % 9}.py"
        yield {
            "kind": "extractor",
            "payload": {
                "code": f"{code}# {number}\n",
                "sample_paths": [f"/archive/delta/{year}/sales_Q{number % 4 + 1}.csv"],
            },
            "labels": {"category": "sales", "file": file},
        }


def main() -> None:
    """Start all of it, print the link, and wait."""
    asked = argparse.ArgumentParser(prog="bench.console_trial")
    asked.add_argument("--port", default="0", help="of the console; 0 takes any")
    asked.add_argument("--once", action="store_true", help="end as soon as all is there")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="assayd-trial-") as folder:
        provider = Path(folder, "provider.py")
        provider.write_text(PROVIDER.format(code=READS), encoding="utf-8")
        written = {"type": "command", "argv": [sys.executable, str(provider)]}
        settings = {
            "ENGINE__KIND": "oci",
            "ENGINE__IMAGES_DIR": os.environ.get("ASSAYD_ENGINE__IMAGES_DIR", str(ROOT / ".run/images")),
            "REPAIR__PROVIDERS": json.dumps({"written": written}),
        }
        with daemon(Path(folder, "d"), **settings) as target, PlainClient(target.socket) as client:
            print("A moment: 260 attempts …", file=sys.stderr, flush=True)
            counts = fill(client)
            told = {name: counts[name] for name in ("total", "validated", "failed", "error")}
            print(f"Batch nightly-sales: {json.dumps(told)}\n{TASKS}", flush=True)
            if given.once:
                return
            print(f"ASSAY_SOCKET={target.socket}", flush=True)
            assay = Path(sys.executable).parent / "assay"
            try:
                subprocess.run(
                    [assay, "--socket", target.socket, "console", "--port", given.port], check=False
                )
            except KeyboardInterrupt:
                print("ended", file=sys.stderr)


if __name__ == "__main__":
    main()
