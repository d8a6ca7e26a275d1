"""What kinds share when a model writes a submission: schemas of answers, and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assayd.model.submission import Sample
from assayd.ports.generatable import Briefing, Document, Example, Proposal
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


def code_example(sample: Sample, *, request: str, reason: str) -> Example:
    """Make an example of a validated sample whose payload is `code` and a context."""
    context = {name: value for name, value in sample.payload.items() if name != "code"}
    code = str(sample.payload["code"]).strip() + "\n"
    return Example(request=request, context=context, answer=Proposal(code=code), reason=reason)


def code_briefing(
    task: str, *, rules: Sequence[str], example: Example, around: Sequence[Surrounding]
) -> Briefing:
    """Return the briefing of a kind whose answers are one text."""
    return Briefing(
        task=task,
        rules=tuple(rules),
        example=example,
        schema=answer_schema("code"),
        surroundings=tuple(around),
    )


def with_code(base: Document, proposal: Proposal) -> Document:
    """Return a payload with the text that was proposed."""
    return {**base, "code": proposal.code}


def file_head(path: str, content: bytes, most: int) -> Surrounding:
    """Show the beginning of a file under its path in the sandbox, and say how much of it that is."""
    size = f"{len(content)} bytes" if len(content) <= most else f"first {most} of {len(content)} bytes"
    return Surrounding(title=f"file {path} ({size})", text=content[:most].decode("utf-8", "replace"))
