"""The self-test samples of the kind `extractor`."""

from __future__ import annotations

from assayd.model.submission import Sample

_PATHS = ("/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2024/Q2/data.csv")

_GOOD = """
import re
from pathlib import PurePosixPath


def extract(path: str) -> dict:
    found = re.search(r"CLIENT-(?P<client>[A-Z]+)/(?P<year>[0-9]{4})/Q(?P<quarter>[1-4])/", path)
    if found is None:
        return {}
    quarter = int(found["quarter"])
    return {
        "client_id": found["client"],
        "year": int(found["year"]),
        "quarter": quarter,
        "start_month": 3 * quarter - 2,
        "filename": PurePosixPath(path).name,
    }
"""


def _build_sample(name: str, code: str, *rules: str, runs: bool = False, verdict: str = "failed") -> Sample:
    paths = _PATHS[:1] if "sandbox.timeout" in rules else _PATHS  # Each path uses its full time limit.
    payload = {"code": code, "sample_paths": list(paths)}
    return Sample(name=name, payload=payload, verdict=verdict, rules=frozenset(rules), needs_container=runs)


SAMPLES = (
    _build_sample("good", _GOOD, runs=True, verdict="validated"),
    _build_sample(
        "good_answer",
        f"Here is the function:\n\n```python{_GOOD}```\nIt gives {{}} for other paths.",
        "answer.block_taken",
        runs=True,
        verdict="validated",
    ),
    _build_sample(
        "some_empty",
        'def extract(path: str) -> dict:\n    return {"client": "ABC"} if "ABC" in path else {}\n',
        "quality.some_empty",
        runs=True,
        verdict="validated",
    ),
    _build_sample("syntax", "def extract(path: str) -> dict\n    return {}\n", "syntax.missing_colon"),
    _build_sample("import", "import os\ndef extract(path): return dict(os.environ)\n", "import.not_allowed"),
    _build_sample(
        "module_name", "import re\ndef extract(path): return {'x': re.enum.sys}\n", "attribute.not_allowed"
    ),
    _build_sample("builtin", "def extract(path): return {'x': open(path).read()}\n", "builtin.not_allowed"),
    _build_sample("dunder", "def extract(path): return {'x': path.__class__.__mro__}\n", "attribute.dunder"),
    _build_sample("missing", "def parse(path: str) -> dict:\n    return {}\n", "signature.missing"),
    _build_sample("async", "async def extract(path: str) -> dict:\n    return {}\n", "signature.async"),
    _build_sample(
        "raised",
        "def extract(path): return {'quarter': int(path.split('/')[4])}\n",
        "sandbox.raised",
        runs=True,
    ),
    _build_sample(
        "endless", "def extract(path):\n    while True: pass\n    return {}\n", "sandbox.timeout", runs=True
    ),
    _build_sample("list", "def extract(path): return [path]\n", "result.not_dict", runs=True),
    _build_sample("empty", "def extract(path): return {}\n", "quality.all_empty", runs=True),
)
