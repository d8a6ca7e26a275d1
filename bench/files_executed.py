"""Counts our files that execute while one warm `assay validate` runs: how much a reader has to follow.

    deploy/dev/oci.sh run .venv/bin/python -m bench.files_executed

Each Python process of client and daemon notes, by a profile hook, when it last called a function of each
file. The container can't pass notes on; all files that its runner loads are counted instead. Needs root, and
images of the OCI engine in .run/images.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.daemon import daemon

ROOT = Path(__file__).resolve().parents[1]
CODE = ROOT / "daemon"
PROGRAM = Path(sys.executable).parent / "assay"
SOURCE, PATH = ROOT / "examples" / "extractor" / "quarter.py", "/data/CLIENT-ABC/2024/Q1/report.csv"
# `sitecustomize` of every interpreter that finds it. Its notes are shared memory, because an analysis worker
# can neither open a file nor start a thread: one time of the last call for each line of the list of files.
HOOK = """
import mmap, os, sys, threading, time

with open(os.environ["FILES_LISTED"]) as listed:
    place = {name: number for number, name in enumerate(listed.read().splitlines())}
with open(os.environ["FILES_NOTED"], "r+b") as noted:
    times = memoryview(mmap.mmap(noted.fileno(), 0)).cast("d")

def note(frame, event, argument):
    if event == "call" and frame.f_code.co_name != "<module>":
        number = place.get(frame.f_code.co_filename)
        if number is not None:
            times[number] = time.time()

threading.setprofile(note)
sys.setprofile(note)
"""
LOADED = """
import sys, assayd.guest.__main__
print(*(module.__file__ for name, module in sys.modules.items() if name.startswith("assayd")), sep="\\n")
"""


def main() -> None:
    """Validate twice, and print how many files the second time executes, by package."""
    files = sorted(str(file) for file in CODE.rglob("*.py"))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        listed, noted = home / "listed", home / "noted"
        listed.write_text("\n".join(files))
        noted.write_bytes(bytes(8 * len(files)))
        (home / "sitecustomize.py").write_text(HOOK)
        os.environ |= {"FILES_LISTED": str(listed), "FILES_NOTED": str(noted), "PYTHONPATH": folder}
        images = str(ROOT / ".run" / "images")
        with (
            daemon(home / "daemon", ENGINE__KIND="oci", ENGINE__IMAGES_DIR=images) as target,
            noted.open("r+b") as notes,
        ):
            times = memoryview(mmap.mmap(notes.fileno(), 0)).cast("d")
            _validate(target.socket)
            time.sleep(3)
            began = time.time()
            _validate(target.socket)
            executed = {file for file, at in zip(files, times, strict=True) if at >= began}
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout
    executed |= set(loaded.splitlines())
    packages = Counter("/".join(Path(file).relative_to(CODE).parts[:-1]) for file in executed)
    for package, count in packages.most_common():
        print(f"{count:4}  {package}")
    print(f"{sum(packages.values()):4}  files")


def _validate(socket: Path) -> None:
    command = [
        str(PROGRAM),
        "--socket",
        str(socket),
        "validate",
        "extractor",
        str(SOURCE),
        "--sample-path",
        PATH,
    ]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
