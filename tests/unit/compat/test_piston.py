from __future__ import annotations

import httpx
import pytest

from assayd_client.errors import Refused
from assayd_compat.program import ProgramEndReason, ProgramResult
from support.fakes.scripted_executor import ScriptedExecutor, ran

PROGRAM = {"language": "python", "version": "3.11.2", "files": [{"content": "print('hi')"}]}


async def test_runtimes_have_versions_and_aliases(http: httpx.AsyncClient) -> None:
    found = (await http.get("/api/v2/runtimes")).json()
    assert {"language": "python", "version": "3.11.2", "aliases": ["py", "py3", "python3"]} in found
    assert "pytest" not in [runtime["language"] for runtime in found]


async def test_program_runs_with_its_output_and_code(http: httpx.AsyncClient) -> None:
    found = (await http.post("/api/v2/execute", json=PROGRAM)).json()
    assert (found["language"], found["version"], "compile" in found) == ("python", "3.11.2", False)
    assert found["run"] == {
        "stdout": "hi\n",
        "stderr": "",
        "output": "hi\n",
        "code": 0,
        "signal": None,
        "message": None,
        "status": None,
        "cpu_time": 125,
        "wall_time": 250,
        "memory": 4 * 2**20,
    }


@pytest.mark.parametrize(
    ("changed", "code", "signal", "status"),
    [
        ({"exit_code": 2}, 2, None, "RE"),
        ({"exit_code": None, "signal": "SIGSEGV"}, None, "SIGSEGV", "SG"),
        ({"end": ProgramEndReason.TIMEOUT, "exit_code": None}, None, "SIGKILL", "TO"),
        ({"end": ProgramEndReason.OUTPUT_LIMIT}, None, "SIGKILL", "OL"),
        ({"end": ProgramEndReason.OURS, "exit_code": None}, None, "SIGKILL", "XX"),
    ],
)
async def test_program_that_fails_has_a_status(
    http: httpx.AsyncClient,
    executor: ScriptedExecutor,
    changed: dict[str, object],
    code: int | None,
    signal: str | None,
    status: str,
) -> None:
    executor.answer = lambda _: ProgramResult(compiled=None, run=ran(**changed))
    run = (await http.post("/api/v2/execute", json=PROGRAM)).json()["run"]
    assert (run["code"], run["signal"], run["status"]) == (code, signal, status)


async def test_program_that_does_not_compile_has_the_compilers_end_as_its_run(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    executor.answer = lambda _: ProgramResult(compiled=ran(exit_code=1, stderr="error: x"), run=None)
    body = {**PROGRAM, "language": "c++", "version": "*"}
    found = (await http.post("/api/v2/execute", json=body)).json()
    assert found["compile"] == found["run"]
    assert found["run"]["stderr"] == "error: x"


async def test_limits_are_milliseconds_and_bytes(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    limits = {"run_timeout": 3000, "run_cpu_time": 2000, "run_memory_limit": 64 * 2**20, "compile_timeout": 1}
    await http.post("/api/v2/execute", json={**PROGRAM, **limits})
    (program,) = executor.programs
    assert (program.timeout_s, program.memory_mb, program.compile_timeout_s) == (2, 64, 0.001)


async def test_limit_of_minus_one_is_the_profiles(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    await http.post("/api/v2/execute", json={**PROGRAM, "run_timeout": -1, "run_memory_limit": -1})
    assert (executor.programs[0].timeout_s, executor.programs[0].memory_mb) == (None, None)


@pytest.mark.parametrize("version", ["*", "3", "3.x", "3.11", "3.11.2", "^3.11"])
async def test_version_may_be_a_range(http: httpx.AsyncClient, version: str) -> None:
    assert (await http.post("/api/v2/execute", json={**PROGRAM, "version": version})).status_code == 200


async def test_further_files_are_beside_the_program(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    files = [
        {"name": "main.py", "content": "x"},
        {"name": "a.txt", "content": "text"},
        {"name": "b.bin", "content": "00ff", "encoding": "hex"},
    ]
    await http.post("/api/v2/execute", json={**PROGRAM, "files": files})
    assert executor.programs[0].files == {"a.txt": "text", "b.bin": {"base64": "AP8="}}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"language": "cobol"}, "language: cobol-3.11.2 runtime is unknown"),
        ({"version": "2.7"}, "language: python-2.7 runtime is unknown"),
        ({"files": []}, "files: "),
        ({"files": [{"content": "x"}, {"content": "y"}]}, "files[1].name: a further file needs a name"),
        ({"files": [{"content": "00", "encoding": "hex"}]}, "files[0].encoding: "),
        (
            {"files": [{"content": "x"}, {"name": "y", "content": "zz", "encoding": "hex"}]},
            "files[1].content: the content isn't valid hex",
        ),
    ],
)
async def test_refusal_is_a_400_with_a_message(
    http: httpx.AsyncClient, executor: ScriptedExecutor, changed: dict[str, object], message: str
) -> None:
    answer = await http.post("/api/v2/execute", json={**PROGRAM, **changed})
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(message)
    assert executor.programs == []


async def test_what_the_daemon_refuses_is_a_400(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    def refuse(_: object) -> ProgramResult:
        raise Refused("invalid", "payload.files: a path has '..'", status=422)

    executor.answer = refuse
    answer = await http.post("/api/v2/execute", json=PROGRAM)
    assert (answer.status_code, answer.json()) == (400, {"message": "payload.files: a path has '..'"})
