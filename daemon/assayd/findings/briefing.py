"""What kinds share when a model writes a submission: schemas of answers, and examples."""

from __future__ import annotations

from collections.abc import Mapping

from assayd.model.prompting import Document, Example, Proposal, Surrounding
from assayd.model.submission import Sample

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


def code_example(sample: Sample, *, request: str, reason: str, field: str = "code") -> Example:
    """Make an example of a validated sample whose payload is one text, in `field`, and a context."""
    context = {name: value for name, value in sample.payload.items() if name != field}
    code = str(sample.payload[field]).strip() + "\n"
    return Example(request=request, context=context, answer=Proposal(code=code), reason=reason)


def file_head(path: str, content: bytes, most: int) -> Surrounding:
    """Show the beginning of a file under its path in the sandbox, and say how much of it that is."""
    size = f"{len(content)} bytes" if len(content) <= most else f"first {most} of {len(content)} bytes"
    return Surrounding(title=f"file {path} ({size})", text=content[:most].decode("utf-8", "replace"))
