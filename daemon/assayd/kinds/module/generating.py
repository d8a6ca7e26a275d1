"""The request for writing a module: words, the manifest, and files such as example responses of an API."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, Field

from assayd.kinds.module.files import is_test
from assayd.kinds.module.samples import ADAPTER, MANIFEST, TESTS
from assayd.model.prompting import Document, Example, Proposal, Surrounding

MANIFEST_FILE = "manifest.json"
_FIXED_TEST = ", a test that must pass; it can't be changed"
TASK = "Write an adapter module: adapter.py, test_adapter.py with tests of it, and manifest.json."

EXAMPLE = Example(
    request="The current temperature and wind of a place from Open-Meteo.",
    context={},
    answer=Proposal(
        files={
            "adapter.py": ADAPTER,
            "test_adapter.py": TESTS,
            MANIFEST_FILE: json.dumps(MANIFEST, indent=1) + "\n",
        }
    ),
    reason="Fetches current_weather, and returns temperature and wind; the tests use a mock transport.",
)


class ModuleContext(BaseModel):
    """The manifest, if it is fixed, and existing files, e.g. example responses of an API."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    manifest: dict[str, object] | None = None
    files: dict[str, str] = Field(default_factory=dict, max_length=100)


def around(context: ModuleContext) -> list[Surrounding]:
    """Return the context that the code must fit."""
    found = [
        Surrounding(title=f"file {name}{_FIXED_TEST if is_test(name) else ''}", text=text)
        for name, text in sorted(context.files.items())
    ]
    if context.manifest is not None:
        text = json.dumps(context.manifest, indent=1)
        found.insert(0, Surrounding(title="manifest.json, which is fixed: don't return it", text=text))
    return found


def base_of(context: ModuleContext) -> Document:
    """Return the payload without the parts that the answer supplies."""
    return {"manifest": context.manifest or {}, "files": dict(context.files)}


def answered(base: Document, proposal: Proposal) -> Document:
    """Add files to a module; manifest.json becomes its manifest, unless that is fixed.

    Existing tests don't change, because an answer could otherwise make them agree with its code.

    Raises: ValueError, if manifest.json isn't a JSON object.
    """
    before = base.get("files")
    there = before if isinstance(before, dict) else {}
    given = {name: text for name, text in proposal.files.items() if name not in there or not is_test(name)}
    manifest = base.get("manifest") or {}
    text = given.pop(MANIFEST_FILE, None)
    if text is not None and not manifest:
        manifest = json.loads(text)
        if not isinstance(manifest, dict):
            raise ValueError(f"{MANIFEST_FILE} isn't a JSON object")
    return {**base, "manifest": manifest, "files": {**there, **given}}
