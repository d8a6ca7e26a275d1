"""From an answer to a module: files are inserted, and existing tests stay."""

from __future__ import annotations

import pytest

from assayd.kinds.module.generating import add_proposal
from assayd.model.prompting import Proposal

BASE = {
    "manifest": {"version": "1.0.0"},
    "files": {"test_wanted.py": "assert 1 == 1\n", "adapter.py": "a = 0\n"},
}


@pytest.mark.parametrize("name", ["test_wanted.py", "tests/test_wanted.py"])
def test_answer_does_not_replace_a_test_that_is_there(name: str) -> None:
    base = {**BASE, "files": {name: "assert 1 == 1\n"}}
    given = add_proposal(base, Proposal(files={name: "assert True\n", "adapter.py": "a = 1\n"}))
    assert given["files"] == {name: "assert 1 == 1\n", "adapter.py": "a = 1\n"}


def test_answer_replaces_other_files_and_adds_tests() -> None:
    given = add_proposal(BASE, Proposal(files={"adapter.py": "a = 1\n", "test_more.py": "assert True\n"}))
    assert given["files"] == {
        "test_wanted.py": "assert 1 == 1\n",
        "adapter.py": "a = 1\n",
        "test_more.py": "assert True\n",
    }


def test_manifest_that_is_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="isn't a JSON object"):
        add_proposal({"files": {}}, Proposal(files={"manifest.json": "[]"}))
