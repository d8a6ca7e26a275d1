from __future__ import annotations

from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client.cli.texts import edited


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "editor"
    program.write_text('#!/bin/sh\nfor file; do echo "# $(basename "$file")" >>"$file"; done\n')
    program.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(program))
    return program


def test_every_text_is_opened_and_read_again(editor: Path) -> None:
    assert edited({"a.py": "x\n", "b/c.sql": "y\n"}) == {"a.py": "x\n# a.py\n", "b/c.sql": "y\n# c.sql\n"}
    assert edited({"": "x\n"}) == {"": "x\n# code.py\n"}


def test_an_editor_that_fails_changes_nothing(editor: Path) -> None:
    editor.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(RequestError, match="editor exited with status 3"):
        edited({"": "x\n"})


def test_an_editor_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, editor: Path) -> None:
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    with pytest.raises(RequestError, match="/no/such/editor"):
        edited({"": "x\n"})
