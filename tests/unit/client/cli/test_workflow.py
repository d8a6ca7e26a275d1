"""The output of `assay workflow`, which comes from untrusted code."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from assayd_client import PlainClient
from assayd_client.cli.workflow import _wait_and_print

WORKFLOW = {"id": "w", "verdict": "validated", "findings": []}
OUTPUTS = {"x": "a\x9b31m\u202eb é"}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_outputs_can_do_nothing_to_a_terminal(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SimpleNamespace(
        workflow=lambda *_, **__: WORKFLOW,
        workflow_outputs=lambda _: {"outputs": OUTPUTS},
        cancel_workflow=None,
    )
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)

    with pytest.raises(typer.Exit):
        _wait_and_print(cast("PlainClient", client), WORKFLOW, None, None, as_json=False)

    printed = capsys.readouterr().out
    assert json.loads(printed) == OUTPUTS
    assert printed.isascii() is is_terminal
