"""The request for generating an extractor: a description, sample paths and cases."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assayd.findings.expected import CASES, describe_cases
from assayd.kinds.extractor.payload import ExtractorCase, SamplePath
from assayd.model.prompting import Document, Example, PromptContext, Proposal
from assayd.model.text_limits import SAMPLE_PATHS

PATHS_TOLD = 100
TASK = "Write an extractor, which takes a file path apart and returns the fields that it names."

EXAMPLE = Example(
    request="client and year",
    context={"sample_paths": ["/data/CLIENT-ABC/2024/report.csv", "/data/CLIENT-XY/2023/data.csv"]},
    answer=Proposal(
        code="""\
import re


def extract(path: str) -> dict:
    found = re.search(r"/CLIENT-([A-Z]+)/([0-9]{4})/", path)
    return {"client": found[1], "year": int(found[2])} if found else {}
"""
    ),
    reason="One pattern finds both parts.",
)


class ExtractorContext(BaseModel):
    """The context of a generated extractor: sample paths and cases, of which at least one must exist."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_paths: Annotated[tuple[SamplePath, ...], Field(max_length=SAMPLE_PATHS)] = ()
    cases: Annotated[tuple[ExtractorCase, ...], Field(max_length=CASES)] = ()

    @model_validator(mode="after")
    def _require_paths(self) -> ExtractorContext:
        if not (self.sample_paths or self.cases):
            raise ValueError("pass sample_paths or cases: an extractor needs paths to run on")
        return self


def build_base_payload(context: ExtractorContext) -> Document:
    """Return the payload without code. If it has no sample paths, use the paths of the cases."""
    paths = context.sample_paths or tuple(dict.fromkeys(case.path for case in context.cases))
    cases = [case.model_dump(mode="json") for case in context.cases]
    return {"sample_paths": list(paths), **({"cases": cases} if cases else {})}


def describe_request_context(context: ExtractorContext) -> list[PromptContext]:
    """Return the context that the generated code must fit."""
    found = []
    if context.sample_paths:
        found.append(PromptContext(title="sample paths", text="\n".join(context.sample_paths[:PATHS_TOLD])))
    if context.cases:
        told = describe_cases((case, case.path, case.expected) for case in context.cases)
        found.append(PromptContext(title="cases that must pass", text=told))
    return found
