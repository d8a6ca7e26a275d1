"""Tries path parsers and nodes of strangers in a daemon: what is refused, and which results differ.

usage: python -m bench.real.functions FILE.jsonl[.xz] --socket SOCKET [--most N]

A line of the file is {"name", "code", "sample_paths", "expected": one for each path} or {"name", "code",
"inputs", "expected"}. Values beyond JSON may stand there in our forms (docs/result-contract.md) or as
{"~datetime": "2024-03-01 12:00:00"}; both are brought to one form before they are compared. Tuples are lists,
as they are in an extractor's result. The code itself is not in this repository.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from assayd_client import PlainClient

_WAIT_S = 120
_DATES = {"datetime", "time"}


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read the items of a file."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as stream:
        for line in stream:
            yield json.loads(line)


def normal(value: Any) -> Any:
    """Bring a value to one form: {"$py": kind, "value": …} for what JSON has no form for."""
    if isinstance(value, list):
        return [normal(item) for item in value]
    return _normal_object(value) if isinstance(value, dict) else value


def _normal_object(value: dict[str, Any]) -> Any:
    match value:
        case {"$py": "tuple", "value": list() as items}:
            return [normal(item) for item in items]
        case {"$py": "set" | "frozenset", "value": list() as items}:
            return {"$py": "set", "value": sorted(map(_text, map(normal, items)))}
        case {"$py": kind, "value": inner}:
            return {"$py": kind, "value": _iso(kind, inner)}
        case {"~set": list() as items, **rest} if not rest:
            return {"$py": "set", "value": sorted(_text(normal(json.loads(item))) for item in items)}
        case dict() if len(value) == 1 and next(iter(value)).startswith("~"):
            [(mark, inner)] = value.items()
            return {"$py": mark[1:], "value": _iso(mark[1:], inner)}
        case _:
            return {key: normal(inner) for key, inner in value.items()}


def _iso(kind: str, value: Any) -> Any:
    return value.replace(" ", "T", 1) if kind in _DATES and isinstance(value, str) else normal(value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def judge(item: Mapping[str, Any], socket: Path) -> tuple[str, list[str]]:
    """Submit an item; return the verdict, and the rules that refuse it or what differs."""
    extractor = "sample_paths" in item
    given = "sample_paths" if extractor else "inputs"
    payload = {"code": item["code"], given: item[given]}
    with PlainClient(socket) as client:
        submission = {"kind": "extractor" if extractor else "code", "payload": payload}
        attempt = client.submit(submission, wait_s=_WAIT_S)
    if attempt["verdict"] != "validated":
        errors = [f for f in attempt["report"]["findings"] if f["severity"] == "error"]
        return str(attempt["verdict"]), sorted({f["rule"] for f in errors})
    cases = attempt["report"]["runtime_results"]["cases"]
    expected = item["expected"] if extractor else [item["expected"]]
    pairs = zip(cases, expected, strict=True)
    told = [
        f"{case['name']}: {_text(normal(case['result']))[:200]}, natively {_text(normal(wanted))[:200]}"
        for case, wanted in pairs
        if _text(normal(case["result"])) != _text(normal(wanted))
    ]
    return "differs" if told else "validated", told


def main() -> int:
    """Judge all items; print what is refused, what differs, and how many are neither."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--socket", type=Path, required=True)
    arguments.add_argument("--most", type=int, default=0, help="refused items that are put up with")
    given = arguments.parse_args()
    items = list(read_lines(given.file))
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(partial(judge, socket=given.socket), items))
    for item, (verdict, told) in zip(items, judged, strict=True):
        if verdict != "validated":
            print(verdict, item["name"], *told, sep=" | ")
    counts = Counter(verdict for verdict, _ in judged)
    print(f"{counts['validated']} of {len(items)} validated: {dict(counts)}")
    return int(counts["differs"] > 0 or len(items) - counts["validated"] > given.most)


if __name__ == "__main__":
    raise SystemExit(main())
