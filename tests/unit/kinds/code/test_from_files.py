from __future__ import annotations

import pytest

from assayd.errors import RequestError
from assayd.kinds.code.command_line import from_files
from assayd.ports.command_line import FileOptions

FILES = {"node.py": b"result: int = 1\n"}


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "soon", ""])
def test_timeout_that_is_no_number_of_seconds_is_refused(seconds: str) -> None:
    with pytest.raises(RequestError, match="isn't a number of seconds") as refused:
        from_files(FILES, FileOptions(extra={"timeout_s": seconds}))
    assert refused.value.field == "payload.timeout_s"


def test_timeout_is_read_in_seconds() -> None:
    assert from_files(FILES, FileOptions(extra={"timeout_s": "2.5"}))["timeout_s"] == 2.5
