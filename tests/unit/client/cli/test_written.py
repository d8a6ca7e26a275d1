"""The file that an attempt's code is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client.cli.report import SubmissionOrigin
from assayd_client.cli.validate import CodeDestination, map_texts_by_path


@pytest.mark.parametrize(("repair", "files"), [(None, [Path("x.py")]), ("rules", [Path("-")])])
def test_place_that_cannot_be_is_refused_before_anything_is_submitted(
    repair: str | None, files: list[Path]
) -> None:
    with pytest.raises(RequestError, match="use --out FILE"):
        CodeDestination(in_place=True).require_compatible_options(repair, files)


def test_changed_texts_of_several_files_go_where_each_was_read() -> None:
    origin = SubmissionOrigin(paths={"adapter.py": "m/adapter.py", "manifest.json": "m/manifest.json"})
    assert map_texts_by_path({"adapter.py": "new"}, origin) == {Path("m/adapter.py"): "new"}


def test_single_text_goes_to_the_single_file() -> None:
    assert map_texts_by_path({"": "new"}, SubmissionOrigin(paths={"x.py": "src/x.py"})) == {
        Path("src/x.py"): "new"
    }


@pytest.mark.parametrize("name", ["", "01_sum.sql"])
def test_text_of_none_of_the_files_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="use --out DIR"):
        map_texts_by_path({name: "new"}, SubmissionOrigin(paths={"a.py": "a.py", "b.py": "b.py"}))
