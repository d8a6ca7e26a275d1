"""Tries bash and SQL steps of strangers: what is refused and by which rule, and which results differ.

usage: python -m bench.real.shell FILE.jsonl[.xz] [--policy NAME] [--blobs FILE] [--socket SOCKET] [--least N]

A line of the file is {"name", "kind", "payload", "native": {"rc", "stdout"} or absent}; a payload
may refer to texts of the file --blobs by {"$blob": NAME}. Without --socket only the static stages are asked,
in this process; with it each line is submitted to a daemon, and what the step prints is compared with what it
printed natively. The code itself is not in this repository: sources_shell.txt says where it comes from.
"""

from __future__ import annotations

import argparse
import http.client
import json
import lzma
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from assayd.model.finding import Severity
from assayd.model.policy import ExecutionPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.validator import validator
from assayd_pipeline.worker import parse_shell

_WAIT_S = 120


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_WAIT_S * 2)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_WAIT_S * 2)
        self.sock.connect(self._path)


def read_lines(path: Path, blobs: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Read the submissions of a file."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as stream:
        for line in stream:
            item = json.loads(line)
            yield {**item, "payload": _filled(item["payload"], blobs)}


def _filled(value: Any, blobs: Mapping[str, str]) -> Any:
    match value:
        case {"$blob": name, **rest} if not rest:
            return blobs[name]
        case dict():
            return {key: _filled(each, blobs) for key, each in value.items()}
        case list():
            return [_filled(each, blobs) for each in value]
    return value


def judge(item: Mapping[str, Any], policy: ExecutionPolicy) -> tuple[str, Sequence[str]]:
    """Ask the static stages; give the verdict and the rules of the first that fails."""
    try:
        payload = validator.prepare(validator.payload.model_validate(item["payload"]))
    except ValueError:
        return "refused by its form", ()
    for stage in validator.stages:
        errors = {f.rule for f in stage.check(payload, policy) if f.severity is Severity.ERROR}
        if errors:
            return "failed", sorted(errors)
    return "validated", ()


def submit(item: Mapping[str, Any], policy: str, path: str) -> tuple[str, Sequence[str]]:
    """Submit an item; give the verdict, and the rules or what differs."""
    connection = _Unix(path)
    body = json.dumps({"kind": item["kind"], "policy": policy, "payload": item["payload"]})
    connection.request("POST", f"/v1/attempts?wait_s={_WAIT_S}", body, {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    report = answer.get("report") or {}
    if answer.get("verdict") != "validated":
        found = {f["rule"] for f in report.get("findings", []) if f["severity"] == "error"}
        refused = (answer.get("error") or {}).get("code", "no verdict")
        return str(answer.get("verdict") or f"refused: {refused}"), sorted(found)
    native = item.get("native") or {}
    printed = "".join(case.get("stdout") or "" for case in (report.get("runtime_results") or {})["cases"])
    if item["payload"]["steps"][0]["type"] == "bash" and native.get("stdout") not in {None, printed}:
        return "validated, and prints something else", ()
    return "validated", ()


def main() -> int:
    """Judge all items, print how many are validated, and why the others are not."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--policy", default="pipeline")
    arguments.add_argument("--blobs", type=Path)
    arguments.add_argument("--socket")
    arguments.add_argument("--least", type=int, default=0)
    given = arguments.parse_args()
    blobs = json.loads(lzma.decompress(given.blobs.read_bytes())) if given.blobs else {}
    items = list(read_lines(given.file, blobs))
    reader.install_reader(parse_shell)
    policy = load_policies([get_shared_data_path("policies")]).get(given.policy)
    with ThreadPoolExecutor(2 if given.socket else 1) as pool:
        verdicts = list(
            pool.map(
                lambda i: submit(i, given.policy, given.socket) if given.socket else judge(i, policy), items
            )
        )
    groups = Counter((verdict, tuple(rules)) for verdict, rules in verdicts)
    for (verdict, rules), count in groups.most_common():
        first = next(
            i["name"] for i, v in zip(items, verdicts, strict=True) if (v[0], tuple(v[1])) == (verdict, rules)
        )
        print(count, verdict, *rules, f"e.g. {first}")
    good = sum(verdict.startswith("validated") for verdict, _ in verdicts)
    print(f"{good} of {len(items)} validated under {given.policy}")
    return int(good < given.least)


if __name__ == "__main__":
    raise SystemExit(main())
