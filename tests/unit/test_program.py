import gc

import pytest

from assayd.errors import ConfigError, EngineError
from assayd.program import disable_gc_during_imports, run_for_exit_code


def refuse(error: Exception) -> int:
    raise error


def test_a_program_that_ends_well_keeps_its_exit_code(capsys) -> None:
    assert run_for_exit_code("assayd", lambda: 0) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ConfigError("setting", "port: say a number"), 2, "assayd: port: say a number\n"),
        (ConfigError("taken", "another daemon", retryable=True), 3, "assayd: another daemon\n"),
        (EngineError("engine.gone", "no engine"), 3, "assayd: engine.gone: no engine\n"),
    ],
    ids=["settings", "taken", "other"],
)
def test_an_error_is_one_line_and_its_exit_code(error, code, told, capsys) -> None:
    assert run_for_exit_code("assayd", lambda: refuse(error)) == code
    assert capsys.readouterr().err == told


def test_a_defect_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run_for_exit_code("assayd", lambda: refuse(ZeroDivisionError()))


def test_imports_are_made_without_the_collector_and_left_alone_by_it() -> None:
    with disable_gc_during_imports():
        assert not gc.isenabled()
    try:
        assert gc.isenabled()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_collector_works_again_after_a_failed_import() -> None:
    with pytest.raises(ImportError), disable_gc_during_imports():
        raise ImportError("no such module")
    gc.unfreeze()
    assert gc.isenabled()
