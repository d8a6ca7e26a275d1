"""What an editor is told about files that are typed, saved and closed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pygls import uris

from assayd_client import ClientError
from assayd_lsp import server as lsp


class Gateway:
    """Refuses static checks."""

    def __init__(self) -> None:
        self.asked = 0

    async def send_for_content(self, request: Any) -> bytes:
        self.asked += 1
        raise ClientError("policy.elsewhere", "nodes judge attempts; ask a node's daemon", status=409)


async def test_user_of_a_gateway_is_told_once_that_files_are_checked_when_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    shown: list[str] = []
    workspace = SimpleNamespace(text_documents={})
    server = SimpleNamespace(
        workspace=workspace, window_show_message=lambda params: shown.append(params.message)
    )
    gateway: Any = Gateway()
    work = lsp.ValidationSubject(subject=tmp_path / "a.py", submission={"kind": "code"}, origin=None)  # type: ignore[arg-type]
    monkeypatch.setattr(lsp, "PAUSE_S", 0)
    monkeypatch.setattr(lsp, "_find_subject", lambda path, read: work)
    editor = lsp.EditorSession(server, gateway, tmp_path)
    for _ in range(2):
        await editor.check(uris.from_fs_path(str(tmp_path / "a.py")) or "")

    assert shown == ["A gateway can't check files while you type. It validates them when you save."]
    assert gateway.asked == 1


class ClosingDaemon:
    """Answers with a finished attempt; meanwhile the user may close the file."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    async def send_for_content(self, request: Any) -> bytes:
        self._meanwhile()
        return json.dumps(
            {"id": "a", "kind": "code", "state": "finished", "report": None, "error": None}
        ).encode()


@pytest.mark.parametrize(("closes", "findings"), [(False, 1), (True, 0)])
async def test_findings_that_arrive_after_their_file_was_closed_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closes: bool, findings: int
) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    uri = uris.from_fs_path(str(path)) or ""
    shown: list[int] = []
    workspace = SimpleNamespace(text_documents={})
    server = SimpleNamespace(
        workspace=workspace,
        text_document_publish_diagnostics=lambda params: shown.append(len(params.diagnostics)),
    )
    work = lsp.ValidationSubject(subject=path, submission={"kind": "code"}, origin=None)  # type: ignore[arg-type]
    monkeypatch.setattr(lsp, "_find_subject", lambda path, read: work)
    monkeypatch.setattr(lsp, "build_diagnostics", lambda *args: [lsp.build_warning(path, "a finding")])
    monkeypatch.setattr(lsp, "write_rule_pages", lambda rules, pages: {})
    daemon: Any = ClosingDaemon(lambda: editor.forget(uri) if closes else None)
    editor = lsp.EditorSession(server, daemon, tmp_path)
    await editor.validate(uri)

    assert shown[-1] == findings
