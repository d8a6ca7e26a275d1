"""The request for generating a module: a description, the manifest, and files such as example responses."""

from __future__ import annotations

import json
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from assayd.kinds.module.files import is_test
from assayd.kinds.module.samples import MANIFEST
from assayd.model.prompting import Document, Example, PromptContext, Proposal

MANIFEST_FILE = "manifest.json"
_FIXED_TEST = ", a test that must pass; it can't be changed"
_ADAPTER_FILE, _TEST_FILE = "adapter.py", "test_adapter.py"
_WANTED = {
    _ADAPTER_FILE: _ADAPTER_FILE,
    _TEST_FILE: f"{_TEST_FILE} with tests of it",
    MANIFEST_FILE: MANIFEST_FILE,
}
TASK = f"Write an adapter module: {', '.join(_WANTED.values())}."
_ADAPTER = """\
import httpx
from assayd_adapter import Adapter, register_adapter


@register_adapter
class OpenMeteo(Adapter):
    async def fetch_raw(self, latitude: float, longitude: float) -> dict:
        async with httpx.AsyncClient(transport=self.config.get("transport")) as client:
            params = {"latitude": latitude, "longitude": longitude, "current_weather": True}
            response = await client.get("https://api.open-meteo.com/v1/forecast", params=params)
        response.raise_for_status()
        return response.json()

    def transform(self, raw: dict) -> dict:
        return {"celsius": raw["current_weather"]["temperature"]}

    def get_schema(self) -> dict:
        return {"type": "object", "required": ["celsius"]}
"""
_TESTS = """\
import httpx
from adapter import OpenMeteo

RAW = {"current_weather": {"temperature": 21.5}}


async def test_adapter():
    adapter = OpenMeteo(transport=httpx.MockTransport(lambda request: httpx.Response(200, json=RAW)))
    raw = await adapter.fetch_raw(52.5, 13.4)
    assert adapter.transform(raw) == {"celsius": 21.5}
    assert adapter.get_schema()["required"] == ["celsius"]
"""
EXAMPLE = Example(
    request="the temperature of a place from Open-Meteo",
    context={},
    answer=Proposal(
        files={
            _ADAPTER_FILE: _ADAPTER,
            _TEST_FILE: _TESTS,
            MANIFEST_FILE: json.dumps(MANIFEST) + "\n",
        }
    ),
    reason="Fetches current_weather and returns the temperature; the test uses a mock transport.",
)


class ModuleContext(BaseModel):
    """The context of a generated module: a fixed manifest, if there is one, and existing files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    manifest: dict[str, object] | None = None
    files: dict[str, str] = Field(default_factory=dict, max_length=100)


def has_tests(context: ModuleContext) -> bool:
    """Return whether the request includes tests, which an answer can't change."""
    return any(map(is_test, context.files))


def describe_task(context: ModuleContext) -> str:
    """Describe the task: list the files that an answer must contain, without the files already supplied."""
    return f"Write an adapter module: {', '.join(words for _, words in _list_requested_files(context))}."


def build_example(context: ModuleContext) -> Example:
    """Return the example with only the files that an answer to this request must contain."""
    files = {name: EXAMPLE.answer.files[name] for name, _ in _list_requested_files(context)}
    reason = EXAMPLE.reason if _TEST_FILE in files else EXAMPLE.reason.partition(";")[0] + "."
    return replace(EXAMPLE, answer=Proposal(files=files), reason=reason)


def _list_requested_files(context: ModuleContext) -> list[tuple[str, str]]:
    given = {
        *([_TEST_FILE] if has_tests(context) else []),
        *([MANIFEST_FILE] if context.manifest is not None else []),
    }
    return [(name, words) for name, words in _WANTED.items() if name not in given]


def describe_request_context(context: ModuleContext) -> list[PromptContext]:
    """Return the context that the generated module must fit."""
    found = [
        PromptContext(title=f"file {name}{_FIXED_TEST if is_test(name) else ''}", text=text)
        for name, text in sorted(context.files.items())
    ]
    if context.manifest is not None:
        text = json.dumps(context.manifest)
        found.insert(0, PromptContext(title="manifest.json, which is fixed: don't return it", text=text))
    return found


def build_base_payload(context: ModuleContext) -> Document:
    """Return the payload without the parts that the answer must supply."""
    return {"manifest": context.manifest or {}, "files": dict(context.files)}


def add_proposal(base: Document, proposal: Proposal) -> Document:
    """Add files to a module; `manifest.json` becomes its manifest, unless the manifest is fixed.

    Existing tests are never replaced, because an answer could otherwise adapt the tests to its code.

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
