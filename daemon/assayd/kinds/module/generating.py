"""The prompt for a module: requirements, permissions, an example; samples for the self-test. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.briefing import describe_permissions
from assayd.kinds.module.files import is_test
from assayd.model.policy import AdapterContract, ExecutionPolicy
from assayd.model.prompting import Document, Example, PromptContext, Proposal
from assayd.model.submission import Sample

_TEST_RULES = (
    "pytest runs the tests (test_*.py); an async test needs no mark. Tests make up the API's answers, for "
    "example by httpx.MockTransport or unittest.mock.patch."
)
_UNNAMED_MODULES = frozenset({"_pytest", "builtins", "gc", "pluggy", "posix"})
"""Refused modules that a prompt doesn't name: no submission needs them."""
MANIFEST_FIELDS = (
    "manifest.json needs module_id (category/platform), version (such as 1.0.0), category, platform (both "
    "lowercase with _), entrypoint (the class, or its file without .py), and capabilities (one or more "
    "words). Optional: description, auth, pagination, rate_limits, outputs, artifacts; nothing else."
)
MANIFEST_FILE = "manifest.json"
_FIXED_TEST = ", a test that must pass; it can't be changed"
FIXED_TESTS_NOTE = "Keep the tests unchanged: correct the code so that it meets their expectations."

_ADAPTER_FILE, _TEST_FILE = "adapter.py", "test_adapter.py"
_TASK_BY_FILE = {
    _ADAPTER_FILE: _ADAPTER_FILE,
    _TEST_FILE: f"{_TEST_FILE} with tests of it",
    MANIFEST_FILE: MANIFEST_FILE,
}
TASK = f"Write an adapter module: {', '.join(_TASK_BY_FILE.values())}."

MANIFEST: dict[str, object] = {
    "module_id": "weather/open_meteo",
    "version": "1.0.0",
    "category": "weather",
    "platform": "open_meteo",
    "entrypoint": "OpenMeteo",
    "capabilities": ["current"],
}

ADAPTER = """\
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

TESTS = """\
import httpx
from adapter import OpenMeteo

RAW = {"current_weather": {"temperature": 21.5}}


async def test_adapter():
    adapter = OpenMeteo(transport=httpx.MockTransport(lambda request: httpx.Response(200, json=RAW)))
    raw = await adapter.fetch_raw(52.5, 13.4)
    assert adapter.transform(raw) == {"celsius": 21.5}
    assert adapter.get_schema()["required"] == ["celsius"]
"""

_TEST = "from adapter import OpenMeteo\n\n\ndef test_transform():\n"

EXAMPLE = Example(
    request="the temperature of a place from Open-Meteo",
    context={},
    answer=Proposal(
        files={
            _ADAPTER_FILE: ADAPTER,
            _TEST_FILE: TESTS,
            MANIFEST_FILE: json.dumps(MANIFEST) + "\n",
        }
    ),
    reason="Fetches current_weather and returns the temperature; the test uses a mock transport.",
)


def build_instructions(
    policy: ExecutionPolicy | None, *, tests: bool = True, allowed: bool = True
) -> tuple[str, ...]:
    """Return the instructions for a module, based on the effective policy or on the contract alone.

    Args:
        policy: the effective policy, or None to use the contract alone.
        tests: whether the answer can contain tests.
        allowed: whether the instructions include the allowed imports.
    """
    contract = AdapterContract() if policy is None else policy.adapter
    lines = [*_describe_contract(contract), *([_TEST_RULES] if tests else [])]
    return (*lines, *(_describe_allowances(policy) if policy is not None and allowed else ()))


def _describe_contract(contract: AdapterContract) -> Iterator[str]:
    decorators, bases = " or ".join(contract.decorators), " or ".join(contract.base_classes)
    source = f" (imported from {' or '.join(contract.modules)})" if contract.modules else ""
    yield (
        f"adapter.py has one class. Its decorator is {decorators}{source}, and its own methods include "
        f"{', '.join(contract.methods)}. Files import one another by name."
    )
    if bases:
        yield (
            f"The base class {bases} keeps its constructor's keyword arguments in the dict self.config. "
            "Methods that fetch are async; transform returns plain JSON data, a dict or a list."
        )


def _describe_allowances(policy: ExecutionPolicy) -> Iterator[str]:
    contract = policy.adapter
    yield from describe_permissions(policy, also=(*contract.modules, "adapter"))
    if policy.is_report_only:
        return
    named = contract.forbidden - policy.imports.denied - _UNNAMED_MODULES
    refused = sorted(name for name in named if "." not in name)
    if any(name.startswith("os.") for name in named):
        refused.append("functions of os that start or end processes")
    if refused:
        *others, last = refused
        listed = f"{', '.join(others)}, or {last}" if others else last
        yield f"No file may use {listed}."


def build_sample(  # noqa: PLR0913  (what a module has)
    name: str,
    *rules: str,
    adapter: str = ADAPTER,
    tests: str = TESTS,
    manifest: dict[str, object] | None = None,
    files: dict[str, str] | None = None,
    runs: bool = False,
    unit_s: float | None = None,
    verdict: str = "failed",
) -> Sample:
    """Return the correct sample module with the given changes."""
    texts = {"adapter.py": adapter, "test_adapter.py": tests, **(files or {})}
    return Sample(
        name=name,
        payload={"manifest": {**MANIFEST, **(manifest or {})}, "files": texts},
        verdict=verdict,
        rules=frozenset(rules),
        needs_container=runs,
        unit_timeout_s=unit_s,
    )


SAMPLES = (
    build_sample("good", runs=True, verdict="validated"),
    build_sample("syntax", "syntax.missing_colon", adapter=ADAPTER.replace("(Adapter):", "(Adapter)")),
    build_sample("undecorated", "contract.no_decorator", adapter=ADAPTER.replace("@register_adapter\n", "")),
    build_sample("method", "contract.missing_method", adapter=ADAPTER.replace("get_schema", "schema")),
    build_sample("import", "import.not_allowed", adapter=f"import subprocess\n{ADAPTER}"),
    build_sample("alias", "forbidden.name", adapter=f"import os as system\n{ADAPTER}\nsystem.system('id')\n"),
    build_sample("manifest", "manifest.value", manifest={"version": "1.0"}),
    build_sample("paths", "paths.not_inside", files={"../other.py": "x = 1\n"}),
    build_sample("planted", "paths.planted", files={"conftest.py": "import pytest\n"}),
    build_sample("shadow", "paths.shadows", files={"json.py": "x = 1\n"}),
    build_sample("untested", "tests.none_found", tests="from adapter import OpenMeteo\n"),
    build_sample(
        "failing", "tests.failed", tests=TESTS.replace('{"celsius": 21.5', '{"celsius": 22.5'), runs=True
    ),
    build_sample(
        "skipped", "tests.all_skipped", tests=f"import pytest\n{_TEST}    pytest.skip('later')\n", runs=True
    ),
    build_sample("leaving", "tests.exited", tests=f"import sys\n{_TEST}    sys.exit(0)\n", runs=True),
    build_sample(
        "unimportable",
        "contract.import_failed",
        adapter=f"{ADAPTER}\nraise RuntimeError('not now')\n",
        runs=True,
    ),
    build_sample("endless", "tests.hung", tests=f"{_TEST}    while True: pass\n", runs=True, unit_s=3.0),
    build_sample(
        "network",
        "policy.network",
        tests="import httpx\n\n\ndef test_fetch():\n    httpx.get('https://api.open-meteo.com/v1')\n",
        runs=True,
    ),
    build_sample(
        "tampering",
        "tests.tampered",
        tests=f"import pytest\n{_TEST}    pytest.Function.runtest = lambda self: None\n",
        runs=True,
    ),
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
    """Return the task, with the files that the answer must contain.

    These are the files that the request doesn't supply.
    """
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
    return [(name, words) for name, words in _TASK_BY_FILE.items() if name not in given]


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
    """Add files to a module. `manifest.json` becomes its manifest, unless the manifest is fixed.

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
