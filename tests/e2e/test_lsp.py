"""The language server with a real daemon: a client opens, fixes and saves files of every kind."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from support.daemons.daemon_process import BIN, DaemonProcess

pytestmark = pytest.mark.engine

TOML = """
[[file]]
match = "*_extractor.py"
kind = "extractor"
sample_paths = ["/data/2024/Q1/a.csv"]
[[file]]
match = "*_node.py"
kind = "code"
input = { a = 2 }
[[file]]
match = "*.sh"
kind = "pipeline"
[[file]]
match = "*.fs"
kind = "fifth"
[[file]]
match = "adapter/*.py"
kind = "module"
"""
EXTRACTOR = (
    'def extract(path: str) -> dict:\n    return {"year": int(re.search(r"/(20[0-9]{2})/", path)[1])}\n'
)
CAPABILITIES = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True)
    ),
    window=types.WindowClientCapabilities(work_done_progress=True),
)
BROKEN = {
    "years_extractor.py": EXTRACTOR,
    "double_node.py": "a: int\nresult: int = aa * 2\n",
    "steps.sh": "set -e\nrm -rf /\n",
    "words.fs": ": double ( n -- n ) dup s+ ;\n",
    "adapter/adapter.py": "import os\n\nos.system('ls')\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".assay.toml").write_text(TOML)
    for name, text in BROKEN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "adapter/manifest.json").write_text(json.dumps({"module_id": "weather/one"}))
    return tmp_path


class Editor:
    """A language client that waits for diagnostics and records messages."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._client = LanguageClient("editor", "1")
        self._published: asyncio.Queue[Any] = asyncio.Queue()
        self.transcript: list[str] = []
        self.messages: list[Any] = []
        self.progress: list[Any] = []
        self.versions: list[int | None] = []
        """Of the texts that diagnostics were published for."""
        heard, messages, progress = self._published, self.messages, self.progress

        def hear(params: Any) -> None:
            heard.put_nowait(params)

        def read(params: Any) -> None:
            messages.append(params)

        def see(params: Any) -> None:
            progress.append(params.value)

        def allow(_: Any) -> None:
            """Accept progress reports from the server."""

        self._client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(hear)
        self._client.feature(types.WINDOW_SHOW_MESSAGE)(read)
        self._client.feature(types.PROGRESS)(see)
        self._client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(allow)

    async def start(self, daemon: DaemonProcess) -> None:
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        command = [str(BIN / "assay"), "--socket", str(daemon.socket), "lsp"]
        await self._client.start_io(*command, env=environment)
        asked = types.InitializeParams(capabilities=CAPABILITIES, root_uri=self._root.as_uri())
        await self._client.initialize_async(asked)
        self._client.initialized(types.InitializedParams())

    async def stop(self) -> None:
        await self._client.shutdown_async(None)
        self._client.exit(None)
        await self._client.stop()

    async def open(self, name: str) -> list[Any]:
        text = (self._root / name).read_text()
        item = types.TextDocumentItem(uri=self.uri(name), language_id="x", version=1, text=text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        return await self._hear(name, "open")

    def type(self, name: str, text: str, version: int = 2) -> None:
        """Change an open text without saving it."""
        document = types.VersionedTextDocumentIdentifier(version=version, uri=self.uri(name))
        change = types.TextDocumentContentChangeWholeDocument(text=text)
        self._client.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=document, content_changes=[change])
        )

    async def save(self, name: str, text: str) -> list[Any]:
        (self._root / name).write_text(text)
        self.type(name, text)
        identifier = types.TextDocumentIdentifier(uri=self.uri(name))
        self._client.text_document_did_save(types.DidSaveTextDocumentParams(text_document=identifier))
        return await self._hear(name, "save")

    async def fixes(self, name: str, place: Any) -> list[Any]:
        asked = types.CodeActionParams(
            text_document=types.TextDocumentIdentifier(uri=self.uri(name)),
            range=place,
            context=types.CodeActionContext(diagnostics=[]),
        )
        found = await self._client.text_document_code_action_async(asked)
        self.transcript += [f"fix {name}: {each.title}" for each in found or ()]
        return list(found or ())

    async def _hear(self, name: str, act: str) -> list[Any]:
        async with asyncio.timeout(60):
            while True:
                published = await self._published.get()
                if published.uri == self.uri(name):
                    break
        self.transcript += [f"{act} {name}: {len(published.diagnostics)} found"] + [
            f"  line {each.range.start.line + 1}: [{each.code}] {each.message.splitlines()[0]}"
            for each in published.diagnostics
        ]
        self.versions.append(published.version)
        return list(published.diagnostics)

    async def heard(self, name: str, until: str | None = None) -> list[Any]:
        """Return the next diagnostics; with a rule, the first ones that contain it."""
        found = await self._hear(name, "heard")
        while until is not None and until not in {each.code for each in found}:
            found = await self._hear(name, "heard")
        return found

    def uri(self, name: str) -> str:
        return (self._root / name).as_uri()


@asynccontextmanager
async def editing(daemon: DaemonProcess, root: Path) -> AsyncIterator[Editor]:
    editor = Editor(root)
    await editor.start(daemon)
    try:
        yield editor
    finally:
        await editor.stop()


def applied(text: str, edits: list[Any]) -> str:
    """Return a text after edits of whole lines."""
    lines = text.splitlines(keepends=True)
    for edit in sorted(edits, key=lambda each: -each.range.start.line):
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
    return "".join(lines)


async def test_every_kind_has_its_findings_and_a_fix_makes_them_go(daemon, root, capsys) -> None:
    async with editing(daemon, root) as editor:
        found = {name: await editor.open(name) for name in BROKEN}
        first = found["years_extractor.py"][0]
        (fix, *_) = await editor.fixes("years_extractor.py", first.range)
        (change,) = fix.edit.document_changes
        edits = change.edits
        left = await editor.save("years_extractor.py", applied(EXTRACTOR, edits))
    with capsys.disabled():
        print("\n" + "\n".join(editor.transcript))

    assert all(found.values())
    assert first.range.start.line == 1
    assert [edit.new_text for edit in edits] == ["import re\n"]
    assert [each for each in left if each.severity == types.DiagnosticSeverity.Error] == []


async def test_fix_after_an_unsaved_change_is_for_the_lines_that_it_was_made_for(daemon, root) -> None:
    name, above = "colon_extractor.py", "# one\n# two\n"
    text = "def extract(path: str) -> dict\n    return {}\n"
    (root / name).write_text(text)
    async with editing(daemon, root) as editor:
        (found,) = await editor.open(name)
        (before,) = await editor.fixes(name, found.range)
        editor.type(name, above + text, version=2)
        (moved,) = await editor.fixes(name, types.Range(types.Position(2, 0), types.Position(2, 1)))
        editor.type(name, f"import re\n{text.replace('dict', 'dict[str, str]')}", version=3)
        changed = await editor.fixes(name, types.Range(types.Position(0, 0), types.Position(2, 0)))

    (change,) = moved.edit.document_changes
    assert (before.title, moved.title) == ("Add ':' at the end of line 1", "Add ':' at the end of line 3")
    assert change.text_document.version == 2
    assert applied(above + text, change.edits) == above + text.replace("dict", "dict:")
    assert changed == []


async def test_editor_warns_once_of_a_daemon_that_does_not_answer_and_asks_again(daemon, root) -> None:
    class Away:
        socket = root / "s"

    async with editing(Away(), root) as editor:
        (told,) = await editor.open("years_extractor.py")
        (again,) = await editor.heard("years_extractor.py")
        Away.socket.symlink_to(daemon.socket)
        found = await editor.heard("years_extractor.py", until="name.not_imported")

    assert (told.severity, told.range) == (types.DiagnosticSeverity.Warning, again.range)
    assert told.range == types.Range(types.Position(0, 0), types.Position(1, 0))
    assert "the daemon does not answer" in told.message
    assert [said.message for said in editor.messages] == [told.message]
    assert found


async def test_diagnostics_name_the_version_of_the_text_that_was_validated(daemon, root) -> None:
    async with editing(daemon, root) as editor:
        await editor.open("years_extractor.py")
        await editor.save("years_extractor.py", EXTRACTOR)
    assert editor.versions == [1, 2]


async def test_validation_that_takes_long_shows_its_progress(daemon, root) -> None:
    slow = "def extract(path: str) -> dict:\n    while path:\n        pass\n    return {}\n"
    (root / "slow_extractor.py").write_text(slow)
    async with editing(daemon, root) as editor:
        await editor.open("slow_extractor.py")
    assert [each["kind"] for each in editor.progress] == ["begin", "end"]
    assert editor.progress[0]["title"] == "assayd: validating slow_extractor.py"


def newest(daemon: DaemonProcess) -> str:
    """Return the id of the newest attempt."""
    with daemon.client() as client:
        found: str = client.attempts(limit=1)["attempts"][0]["id"]
    return found


async def test_text_is_checked_by_static_stages_while_it_is_typed(daemon, root) -> None:
    name, saved = "typed_extractor.py", "def extract(path: str) -> dict:\n    return {'year': 1 / 0}\n"
    (root / name).write_text(saved)
    async with editing(daemon, root) as editor:
        (ran,) = await editor.open(name)
        before = newest(daemon)
        page = Path(unquote(urlsplit(ran.code_description.href).path)).read_text()
        editor.type(name, f"import socket\n{saved}", version=2)
        typed = await editor.heard(name, until="import.not_allowed")
        editor.type(name, saved.replace("1 / 0", "1 / 1"), version=3)
        mended = await editor.heard(name)

    places = {each.code: each.range.start.line for each in typed}
    assert places == {"import.not_allowed": 0, ran.code: ran.range.start.line + 1}
    assert mended == []
    assert editor.versions == [1, 2, 3]
    assert newest(daemon) == before
    assert page.startswith("# ")
    assert f"`{ran.code}`: error of the kind `extractor`" in page
