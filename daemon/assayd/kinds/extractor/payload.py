"""The payload of an extractor, and samples for the self-test."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names
from assayd.model.submission import Sample
from assayd.model.text_limits import MAX_APPLIED_PATHS, SAMPLE_PATH_CHARS, SAMPLE_PATHS

SamplePath = Annotated[str, Field(min_length=1, max_length=SAMPLE_PATH_CHARS)]


class ExtractorCase(ExpectedCase):
    """The expected result for one path. The listed fields must be equal, and other fields are ignored."""

    path: SamplePath
    expected: dict[str, object]


class ExtractorPayload(BaseModel):
    """A function `extract(path)`, with sample paths or with the paths to which it is applied."""

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    code: str = Field(description="Plain Python, YAML rules, or a model's answer with either.")
    paths: tuple[SamplePath, ...] = Field(
        (),
        max_length=MAX_APPLIED_PATHS,
        description="Paths that approved code is applied to, many in one process; instead of the next two.",
    )
    sample_paths: tuple[SamplePath, ...] = Field(
        (),
        max_length=SAMPLE_PATHS,
        validate_default=True,
        description="Paths that the code is tried on; no such files need to exist.",
    )
    cases: tuple[ExtractorCase, ...] = Field(
        (),
        max_length=CASES,
        description="Paths with expected results, tried in addition to the sample paths.",
    )

    @field_validator("sample_paths")
    @classmethod
    def _require_paths(
        cls, sample_paths: tuple[SamplePath, ...], info: ValidationInfo
    ) -> tuple[SamplePath, ...]:
        if not sample_paths and info.data.get("paths") == ():
            raise ValueError("missing or empty: pass at least one path")
        return sample_paths

    @field_validator("cases")
    @classmethod
    def _require_unique_names(cls, cases: tuple[ExtractorCase, ...]) -> tuple[ExtractorCase, ...]:
        require_unique_names(cases)
        return cases

    @model_validator(mode="after")
    def _require_separate_paths(self) -> ExtractorPayload:
        if self.paths and (self.sample_paths or self.cases):
            raise ValueError("paths can't be combined with sample_paths or cases: submit them separately")
        return self


class PreparedExtractor(ExtractorPayload):
    """A payload with the Python code to run. `from_rules` is true if the code was generated from rules."""

    from_rules: bool = False


_PATHS = ("/data/CLIENT-ABC/2024/Q1/report.csv", "/data/CLIENT-XYZ/2024/Q2/data.csv")

_VALID_SOURCE = """
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
    _build_sample("good", _VALID_SOURCE, runs=True, verdict="validated"),
    _build_sample(
        "good_answer",
        f"Here is the function:\n\n```python{_VALID_SOURCE}```\nIt gives {{}} for other paths.",
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
