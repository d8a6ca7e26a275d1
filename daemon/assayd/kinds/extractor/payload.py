"""The payload of an extractor."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from assayd.findings.expected import CASES, ExpectedCase, require_unique_names
from assayd.model.text_limits import APPLIED_PATHS, SAMPLE_PATH_CHARS, SAMPLE_PATHS

SamplePath = Annotated[str, Field(min_length=1, max_length=SAMPLE_PATH_CHARS)]


class ExtractorCase(ExpectedCase):
    """The expected result for one path; the listed fields must be equal, and other fields are ignored."""

    path: SamplePath
    expected: dict[str, object]


class ExtractorPayload(BaseModel):
    """A function `extract(path)`, with sample paths or with the paths to which it is applied."""

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    code: str = Field(description="Plain Python, YAML rules, or a model's answer with either.")
    paths: tuple[SamplePath, ...] = Field(
        (),
        max_length=APPLIED_PATHS,
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
