"""The payload of an extractor."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from assayd.findings.expected import CASES, ExpectedCase, refuse_twins
from assayd.model.text_limits import APPLIED_PATHS, SAMPLE_PATH_CHARS, SAMPLE_PATHS

SamplePath = Annotated[str, Field(min_length=1, max_length=SAMPLE_PATH_CHARS)]


class ExtractorCase(ExpectedCase):
    """The expected result for one path: named fields must be equal, others may exist."""

    path: SamplePath
    expected: dict[str, object]


class ExtractorPayload(BaseModel):
    """`code` is a model's answer, plain Python or YAML rules; it is tried on `sample_paths`.

    `cases` are expected results for some paths, which run in addition to the sample paths. `paths`, in place
    of both, are what approved code is applied to, many in one process.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    code: str
    sample_paths: Annotated[tuple[SamplePath, ...], Field(max_length=SAMPLE_PATHS)] = ()
    cases: Annotated[tuple[ExtractorCase, ...], Field(max_length=CASES)] = ()
    paths: Annotated[tuple[SamplePath, ...], Field(max_length=APPLIED_PATHS)] = ()

    @field_validator("cases")
    @classmethod
    def _name_each(cls, cases: tuple[ExtractorCase, ...]) -> tuple[ExtractorCase, ...]:
        refuse_twins(cases)
        return cases

    @model_validator(mode="after")
    def _something_to_run_on(self) -> ExtractorPayload:
        if self.paths and (self.sample_paths or self.cases):
            raise ValueError("paths can't be combined with sample_paths or cases: submit them separately")
        if not (self.sample_paths or self.paths):
            raise ValueError("sample_paths is missing or empty: pass at least one path")
        return self


class PreparedExtractor(ExtractorPayload):
    """A payload with the Python to run; `from_rules` says that the daemon wrote it from rules."""

    from_rules: bool = False
