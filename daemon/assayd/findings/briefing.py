"""What kinds share when a submission is to be written from words: schemas of answers, and good examples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from assayd.model.submission import Sample
from assayd.ports.generatable import Briefing, Document
from assayd.ports.repairable import Surrounding

_REASON = {"type": "string", "description": "What it does, in a sentence or two."}
_CODE = {"type": "string", "description": "The whole text."}
_FILES = {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}
_STEP = {
    "type": "object",
    "required": ["name", "type", "content"],
    "properties": {
        "name": {"type": "string"},
        "type": {"enum": ["bash", "sql"]},
        "content": {"type": "string"},
    },
}
_FORMS: Mapping[str, Document] = {
    "code": _CODE,
    "files": _FILES,
    "steps": {"type": "array", "items": _STEP, "minItems": 1},
}


def answer_schema(form: str) -> Document:
    """Return the JSON Schema of an answer in one form: ``code``, ``files`` or ``steps``."""
    return {
        "type": "object",
        "required": [form, "reason"],
        "properties": {form: _FORMS[form], "reason": _REASON},
    }


def example_answer(form: str, value: object) -> str:
    """Return one good answer, as it would be written."""
    return json.dumps({form: value, "reason": "It does what was asked, with all cases in mind."}, indent=1)


def code_briefing(
    task: str, *, rules: Sequence[str], samples: Sequence[Sample], around: Sequence[Surrounding]
) -> Briefing:
    """Brief a model on a kind that is one text; the example is its first sample that is validated."""
    good = next(sample for sample in samples if sample.verdict == "validated")
    return Briefing(
        task=task,
        rules=tuple(rules),
        example=example_answer("code", str(good.payload["code"]).strip() + "\n"),
        schema=answer_schema("code"),
        surroundings=tuple(around),
    )
