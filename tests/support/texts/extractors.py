"""Submissions of the simplest kind: extractors that pass, fail, and take long."""

from __future__ import annotations

PATH = "/data/CLIENT-ABC/2024/Q1/report.csv"

GOOD = """
def extract(path: str) -> dict:
    parts = path.split("/")
    return {"client": parts[2], "year": int(parts[3]), "quarter": parts[4]}
"""

LOUD = """
def extract(path: str) -> dict:
    print("looking at", path)
    return {"path": path}
"""

LOOP = """
def extract(path: str) -> dict:
    while True:
        path = path.strip()
    return {"path": path}
"""

PROCESSES = """
import subprocess

def extract(path: str) -> dict:
    return {"out": subprocess.check_output(["id"]).decode()}
"""

GREEDY = """
def extract(path: str) -> dict:
    return {"size": len([bytearray(1 << 20) for _ in range(4096)])}
"""

NOISY = """
def extract(path: str) -> dict:
    while True:
        print(path * 1000)
    return {"path": path}
"""

RAISES = """
def extract(path: str) -> dict:
    return {"year": int(path)}
"""


def extractor(
    code: str, *paths: str, seconds: float | None = None, labels: dict[str, str] | None = None
) -> dict[str, object]:
    """Return a submission; `seconds` lowers the time limit per path."""
    submission: dict[str, object] = {
        "kind": "extractor",
        "payload": {"code": code, "sample_paths": list(paths or (PATH,))},
        "labels": labels or {},
    }
    if seconds is not None:
        submission["overrides"] = {"resources": {"unit_timeout_s": seconds}}
    return submission


def endless(paths: int = 10) -> dict[str, object]:
    """Return a submission that runs until its limit."""
    return extractor(LOOP, *(f"{PATH}.{number}" for number in range(paths)))
