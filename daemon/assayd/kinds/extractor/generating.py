"""The request for writing an extractor: words, sample paths, cases."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from assayd.findings.briefing import code_example
from assayd.findings.expected import CASES, cases_told
from assayd.kinds.extractor.payload import ExtractorCase, SamplePath
from assayd.kinds.extractor.samples import SAMPLES
from assayd.model.prompting import Document, Surrounding
from assayd.model.text_limits import SAMPLE_PATHS

PATHS_TOLD = 100
TASK = "Write an extractor, which takes a file path apart and returns the fields that it names."

EXAMPLE = code_example(
    SAMPLES[0],
    request="Extract client, year, quarter, the first month of the quarter, and the file name.",
    reason="Reads client, year and quarter by one pattern and computes the month; other paths give {}.",
)


class ExtractorContext(BaseModel):
    """Sample paths to try, and cases to pass; at least one of them is required."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_paths: Annotated[tuple[SamplePath, ...], Field(max_length=SAMPLE_PATHS)] = ()
    cases: Annotated[tuple[ExtractorCase, ...], Field(max_length=CASES)] = ()

    @model_validator(mode="after")
    def _something_to_try(self) -> ExtractorContext:
        if not (self.sample_paths or self.cases):
            raise ValueError("pass sample_paths or cases: an extractor needs paths to run on")
        return self


def base_of(context: ExtractorContext) -> Document:
    """Return the payload without code; without sample paths, the paths of the cases are tried."""
    paths = context.sample_paths or tuple(dict.fromkeys(case.path for case in context.cases))
    cases = [case.model_dump(mode="json") for case in context.cases]
    return {"sample_paths": list(paths), **({"cases": cases} if cases else {})}


def around(context: ExtractorContext) -> list[Surrounding]:
    """Return the context that the code must fit."""
    found = []
    if context.sample_paths:
        found.append(Surrounding(title="sample paths", text="\n".join(context.sample_paths[:PATHS_TOLD])))
    if context.cases:
        told = cases_told((case, case.path, case.expected) for case in context.cases)
        found.append(Surrounding(title="cases that have to pass", text=told))
    return found
