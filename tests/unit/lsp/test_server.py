"""What an editor is told if the daemon can't check files while they are typed."""

from __future__ import annotations

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
