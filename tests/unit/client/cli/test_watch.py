"""Validating after every save, with a scripted clock."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd_client.cli.validate import compute_files_signature, watch_files


class Saves:
    """Replaces the pause between checks: something happens in each pause, and the last one is interrupted."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self._acts = list(acts)

    def __call__(self, _: float) -> None:
        if not self._acts:
            raise KeyboardInterrupt
        self._acts.pop(0)()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "x.py"
    made.write_text("one")
    return made


def test_every_save_is_validated_once(file: Path) -> None:
    seen: list[str] = []
    saves = Saves(lambda: None, lambda: file.write_text("two, longer"), lambda: None)

    code = watch_files(lambda: seen.append(file.read_text()) or len(seen), [file], clear=False, wait=saves)

    assert (seen, code) == (["one", "two, longer"], 2)


def test_file_that_an_editor_replaces_is_waited_for(file: Path) -> None:
    seen: list[str] = []
    saves = Saves(file.unlink, lambda: None, lambda: file.write_text("new text"))

    watch_files(lambda: seen.append(file.read_text()) or 0, [file], clear=False, wait=saves)

    assert seen == ["one", "new text"]


def test_new_file_in_a_folder_is_a_change(tmp_path: Path, file: Path) -> None:
    before = compute_files_signature([tmp_path])
    (tmp_path / "y.py").write_text("more")

    assert compute_files_signature([tmp_path]) != before


def test_what_cannot_be_submitted_is_said_and_watching_goes_on(file: Path, capsys) -> None:
    answers = [RequestError("malformed", "it is \x1b[2Jno JSON"), None]

    def validate() -> int:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return 1

    code = watch_files(validate, [file], clear=False, wait=Saves(lambda: file.write_text("again")))

    assert (code, capsys.readouterr().err) == (1, "assay: it is \\x1b[2Jno JSON\n")


@pytest.mark.parametrize("paths", [[], [Path("-")]])
def test_what_cannot_be_watched_is_refused(paths) -> None:
    with pytest.raises(RequestError, match="--watch requires files or folders"):
        watch_files(lambda: 0, paths, clear=False)
