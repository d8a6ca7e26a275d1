from __future__ import annotations

import pytest

from assayd_compat.languages import BY_NAME, LANGUAGES, LOADER
from assayd_compat.program import (
    Program,
    ProgramEndReason,
    build_compilation,
    build_execution,
    build_interpretation,
    is_invalid_python,
    parse_process_end,
)

LIMITS = {"timeout_s": 60.0, "unit_timeout_s": 60.0, "memory_mb": 512}


def program(language: str = "python", **changed: object) -> Program:
    return Program(language=BY_NAME[language], source="print(1)", client="piston", **changed)


def finished(ran: dict[str, object] = {}, **changed: object) -> dict[str, object]:  # noqa: B006 - only read
    execution_of = {
        "cause": "completed",
        "stdout": "out",
        "stderr": "err",
        "exit_code": 0,
        "signal": None,
        "cpu_ms": 40.0,
        "peak_memory_bytes": 1024,
    }
    report = {"findings": [{"message": "Too slow."}], "runtime_results": {"cases": [{"duration_ms": 50.0}]}}
    return {
        "id": "01A",
        "verdict": "validated",
        "rules": [],
        "created_at": "2026-11-26T01:00:00.000000Z",
        "finished_at": "2026-11-26T01:00:01.000000Z",
        "execution": {**execution_of, **ran},
        "report": report,
        "error": None,
        "artifacts": [{"name": "files/a.txt", "bytes": 3}],
        **changed,
    }


def test_python_without_arguments_is_the_code_of_a_script() -> None:
    sent = build_execution(program(stdin="x", files={"a": "1"}), "script", LIMITS)
    assert sent["payload"] == {"code": "print(1)", "files": {"a": "1"}, "stdin": "x", "collect": []}
    assert sent["labels"] == {"client": "piston", "language": "python"}


def test_python_with_arguments_is_a_file_for_the_interpreter() -> None:
    payload = build_execution(program(arguments=("-x",)), "script", LIMITS)["payload"]
    assert payload["argv"] == ["python3.11", "main.py", "-x"]
    assert payload["files"] == {"main.py": "print(1)"}


def test_bash_is_a_file_for_its_interpreter() -> None:
    sent = build_execution(program("bash"), "shell", LIMITS)
    assert (sent["policy"], sent["payload"]["argv"]) == ("shell", ["bash", "main.sh"])


def test_compiled_language_is_compiled_first_and_its_product_is_run() -> None:
    compiling = build_compilation(program("cpp"), "cpp", LIMITS)["payload"]
    assert (compiling["argv"][0], compiling["collect"]) == ("g++", ["main"])
    running = build_execution(program("cpp"), "cpp", LIMITS, {"base64": "AA=="})["payload"]
    assert (running["argv"], running["files"]) == ([LOADER, "./main"], {"main": {"base64": "AA=="}})


def test_limits_are_tightened_and_never_widened() -> None:
    tight = build_execution(program(timeout_s=0.5, memory_mb=64), "script", LIMITS)["overrides"]["resources"]
    assert tight == {"timeout_s": 0.5, "unit_timeout_s": 0.5, "memory_mb": 64}
    wide = build_execution(program(timeout_s=600, memory_mb=4096), "script", LIMITS)["overrides"]["resources"]
    assert wide == {}


@pytest.mark.parametrize("unlimited", [0, -1, None])
def test_limit_of_nothing_is_the_profiles(unlimited: int | None) -> None:
    sent = build_execution(program(timeout_s=unlimited, memory_mb=unlimited), "script", LIMITS)
    assert sent["overrides"]["resources"] == {}


def test_files_outside_the_work_directory_are_not_fetched() -> None:
    sent = build_execution(program(collect=("a.txt", "/mnt/b", "../c")), "script", LIMITS)
    assert sent["payload"]["collect"] == ["a.txt"]


def test_interpretation_hands_over_a_source_whatever_it_holds() -> None:
    assert build_interpretation(program(), "script", LIMITS)["payload"]["argv"] == ["python3.11", "main.py"]


def test_end_of_an_attempt_has_its_measures_in_seconds_and_bytes() -> None:
    end = parse_process_end(finished())
    assert (end.end, end.exit_code, end.wall_s, end.cpu_s) == (ProgramEndReason.EXITED, 0, 0.05, 0.04)
    assert (end.memory_bytes, end.artifacts, end.message) == (1024, {"files/a.txt": 3}, "")


@pytest.mark.parametrize(
    ("cause", "end"),
    [
        ("exited_nonzero", ProgramEndReason.EXITED),
        ("signalled", ProgramEndReason.EXITED),
        ("timeout", ProgramEndReason.TIMEOUT),
        ("out_of_memory", ProgramEndReason.OUT_OF_MEMORY),
        ("output_limit", ProgramEndReason.OUTPUT_LIMIT),
        ("infrastructure", ProgramEndReason.OURS),
    ],
)
def test_cause_decides_the_end(cause: str, end: ProgramEndReason) -> None:
    found = parse_process_end(finished({"cause": cause}, verdict="failed"))
    assert (found.end, found.message) == (end, "Too slow.")


def test_attempt_that_did_not_run_is_our_failure_with_its_message() -> None:
    lost = finished(verdict="error", execution=None, error={"code": "lost", "message": "The run was lost."})
    assert (parse_process_end(lost).end, parse_process_end(lost).message) == (
        ProgramEndReason.OURS,
        "The run was lost.",
    )


def test_cancelled_attempt_is_not_the_programs_failure() -> None:
    assert parse_process_end(finished(verdict="cancelled")).end is ProgramEndReason.CANCELLED


def test_signal_has_its_number() -> None:
    assert parse_process_end(finished({"signal": "SIGSEGV", "exit_code": None})).signal_number == 11


def test_no_two_languages_share_a_name() -> None:
    names = [name for language in LANGUAGES for name in (language.name, *map(str, language.judge0))]
    assert len(names) == len(set(names))
    assert len(piston := [name for language in LANGUAGES for name in language.piston]) == len(set(piston))


def test_source_that_a_rule_refuses_did_not_succeed_and_is_not_run_otherwise() -> None:
    attempt = finished(execution=None, verdict="failed", rules=["import.not_allowed"])
    refused = parse_process_end(attempt)
    assert (refused.end, refused.exit_code, refused.stderr) == (ProgramEndReason.EXITED, 1, "Too slow.\n")
    assert not is_invalid_python(attempt)


def test_source_with_a_syntax_error_is_for_the_interpreter() -> None:
    assert is_invalid_python(finished(execution=None, verdict="failed", rules=["syntax.invalid"]))


def test_webhook_belongs_to_the_run_alone() -> None:
    told = program("cpp", webhook="https://ci.example/hooks")
    assert "webhook" not in build_compilation(told, "cpp", LIMITS)
    assert build_execution(told, "cpp", LIMITS, {"base64": "AA=="})["webhook"] == "https://ci.example/hooks"
