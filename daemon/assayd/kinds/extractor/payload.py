"""What the submission of an extractor holds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assayd.model.text_limits import SAMPLE_PATH_CHARS, SAMPLE_PATHS


class ExtractorPayload(BaseModel):
    """`code` is a model's answer or plain Python; `sample_paths` are what it is tried on."""

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    code: str
    sample_paths: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=SAMPLE_PATH_CHARS)], ...],
        Field(min_length=1, max_length=SAMPLE_PATHS),
    ]
