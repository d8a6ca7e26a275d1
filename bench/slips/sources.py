"""Gathers texts that are right: the examples, and the code of strangers where it is at hand."""

from __future__ import annotations

import json
import lzma
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.ports.command_line import FileOptions
from assayd_client.cli.kinds import get_files_reader

ROOT = Path(__file__).parents[2]
REAL = Path(os.environ.get("BENCH_REAL", ROOT.parent / "shared" / "real"))
Payload = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One submission that is right; slips are put into `text`, and `put` puts the outcome in its place."""

    kind: str
    name: str
    language: str
    text: str
    put: Callable[[str], Payload]


def examples() -> Iterator[Source]:
    """Return the examples that are to be validated."""
    for kind in ("extractor", "code", "script"):
        folder = ROOT / "examples" / kind
        for listed in tomllib.loads((folder / "examples.toml").read_text())["example"]:
            name = listed["file"]
            if listed["verdict"] == "validated" and name.endswith(".py"):
                given = json.loads((folder / listed["input"]).read_text()) if "input" in listed else None
                options = FileOptions(
                    sample_paths=tuple(listed.get("sample_paths", ())),
                    input=given,
                    extra=_options(listed.get("options", [])),
                )
                payload = get_files_reader(kind)({name: (folder / name).read_bytes()}, options)
                yield from _of_payload(kind, f"examples/{name}", payload)


def _options(given: Sequence[str]) -> dict[str, str]:
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def real(which: str) -> Iterator[Source]:
    """Return the code of strangers of one set.

    Raises:
        SystemExit: the folder that BENCH_REAL names has no such set.
    """
    file = REAL / f"{which}.jsonl.xz"
    if not file.exists():
        raise SystemExit(f"error: {file} doesn't exist: set BENCH_REAL to the folder with the real programs")
    with lzma.open(REAL / "blobs.json.xz", "rt") as stream:
        blobs = json.load(stream)
    with lzma.open(file, "rt") as lines:
        for line in lines:
            item = json.loads(line)
            if which in {"extractors", "nodes"}:
                kind = "extractor" if which == "extractors" else "code"
                payload = {name: item[name] for name in ("code", "sample_paths", "inputs") if name in item}
            else:
                kind, payload = item["kind"], _unpacked(item["payload"], blobs)
            yield from _of_payload(kind, item["name"], payload)


def _of_payload(kind: str, name: str, payload: Payload) -> Iterator[Source]:
    files, steps = payload.get("files"), payload.get("steps")
    if kind == "module" and isinstance(files, dict):
        text = files.get("adapter.py")
        if isinstance(text, str):
            put = lambda new: {**payload, "files": {**files, "adapter.py": new}}  # noqa: E731 - a line is enough
            yield Source(kind=kind, name=name, language="python", text=text, put=put)
    elif kind == "pipeline" and isinstance(steps, list) and len(steps) == 1:
        step = steps[0]
        put = lambda new: {**payload, "steps": [{**step, "content": new}]}  # noqa: E731
        yield Source(kind=kind, name=name, language=step["type"], text=step["content"], put=put)
    elif isinstance(payload.get("code"), str):
        language = "fifth" if kind == "fifth" else "python"
        put = lambda new: {**payload, "code": new}  # noqa: E731
        yield Source(kind=kind, name=name, language=language, text=str(payload["code"]), put=put)


def _unpacked(value: object, blobs: Mapping[str, object]) -> object:
    if isinstance(value, dict):
        if set(value) == {"$blob"}:
            return blobs[value["$blob"]]
        return {key: _unpacked(inner, blobs) for key, inner in value.items()}
    return [_unpacked(inner, blobs) for inner in value] if isinstance(value, list) else value
