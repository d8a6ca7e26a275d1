"""Requests of which very much does not fit are refused before a model makes an error of each part."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from assayd.documents import read_submission
from assayd.documents.misfits import MOST, refuse_many_errors
from assayd.errors import RequestError
from assayd.kinds import registry


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    sizes: list[int] = []


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    part: Part | None = None
    parts: Annotated[tuple[Part, ...], Field(max_length=10)] = ()
    texts: dict[str, str] = {}
    either: str | list[str] = ""
    free: dict[str, JsonValue] = {}


MANY = range(MOST + 1)
UNKNOWN = {f"x{n}": n for n in MANY}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (UNKNOWN, "x0"),
        ({"part": UNKNOWN}, "part.x0"),
        ({"parts": [UNKNOWN]}, "parts.0.x0"),
        ({"part": {"name": "a", "sizes": [None for _ in MANY]}}, "part.sizes.0."),
        ({"texts": {f"t{n}": n for n in MANY}}, "texts.t0."),
        ({"either": list(MANY)}, "either.0."),
        ({"parts": [1 for _ in MANY]}, "parts.0."),
    ],
)
def test_many_misfits_are_refused_by_the_first(value: dict[str, object], field: str) -> None:
    with pytest.raises(RequestError) as refused:
        refuse_many_errors(Whole, value)
    assert refused.value.code == "invalid"
    assert refused.value.field == field


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"part": None, "either": ["a"] * 500},
        {"free": UNKNOWN, "texts": {f"t{n}": "" for n in range(500)}},
        {"free": {"list": list(range(5000))}},
        {"part": {"name": 1, "other": 2}},
    ],
)
def test_what_fits_and_few_misfits_are_left_to_the_model(value: dict[str, object]) -> None:
    refuse_many_errors(Whole, value)


@pytest.mark.parametrize("where", ["", "overrides", "payload"])
def test_submission_of_a_hundred_thousand_unknown_fields_is_refused_at_once(where: str) -> None:
    crowd = {f"x{n}": 1 for n in range(100_000)}
    body: dict[str, object] = {"kind": "script", "payload": {"code": "pass"}}
    body |= {where: crowd} if where else crowd
    with pytest.raises(RequestError, match=f"more than {MOST} fields"):
        read_submission(json.dumps(body).encode(), registry.load([]))
