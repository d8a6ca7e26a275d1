from __future__ import annotations

import base64
from pathlib import Path

from assayd_client.pytest_plugin import build_submission, describe_failure


def test_submission_has_the_module_and_the_named_files(tmp_path: Path) -> None:
    module = tmp_path / "tests/test_x.py"
    module.parent.mkdir()
    module.write_text("module")
    (tmp_path / "generated.py").write_text("code")
    made = build_submission(module, "TestX::test_y[1]", tmp_path, ("generated.py",), "testing", 5)
    payload = made["payload"]
    assert payload["argv"][-1] == "test_x.py::TestX::test_y[1]"
    assert {name: base64.b64decode(file["base64"]) for name, file in payload["files"].items()} == {
        "generated.py": b"code",
        "test_x.py": b"module",
    }
    assert (made["policy"], made["labels"]) == ("testing", {"client": "pytest"})
    assert made["overrides"] == {"resources": {"unit_timeout_s": 5, "timeout_s": 5}}


def test_failure_shows_the_reason_and_what_pytest_printed() -> None:
    attempt = {
        "id": "01A",
        "report": {"findings": [{"message": "The script ended with exit code 1."}]},
        "execution": {"stdout": "E  assert 3 == 1\n", "stderr": ""},
        "error": None,
    }
    assert describe_failure(attempt) == "attempt 01A: The script ended with exit code 1.\nE  assert 3 == 1"


def test_failure_of_ours_shows_its_message() -> None:
    attempt = {"id": "01A", "report": None, "execution": None, "error": {"message": "The run was lost."}}
    assert describe_failure(attempt) == "attempt 01A: The run was lost.\n"
