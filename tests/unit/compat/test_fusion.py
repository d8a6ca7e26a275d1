from __future__ import annotations

import base64
import json

import httpx
import pytest

from assayd_client.errors import ClientError, NotReady
from assayd_compat import fusion
from assayd_compat.program import ProgramEndReason, ProgramResult
from support.fakes.scripted_executor import ScriptedExecutor, ran

JSON = {"content-type": "application/json"}


async def run(http: httpx.AsyncClient, **body: object) -> dict[str, object]:
    answer = await http.post("/run_code", json={"language": "python", "code": "print('hi')", **body})
    assert answer.status_code == 200
    return answer.json()


async def test_program_that_exits_with_0_is_a_success(http: httpx.AsyncClient) -> None:
    assert await run(http) == {
        "status": "Success",
        "message": "",
        "compile_result": None,
        "run_result": {
            "status": "Finished",
            "execution_time": 0.25,
            "return_code": 0,
            "stdout": "hi\n",
            "stderr": "",
        },
        "executor_pod_name": None,
        "files": {},
    }


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"exit_code": 3}, "Finished", 3),
        ({"exit_code": None, "signal": "SIGABRT"}, "Finished", -6),
        ({"end": ProgramEndReason.TIMEOUT, "exit_code": None}, "TimeLimitExceeded", None),
        ({"end": ProgramEndReason.OUT_OF_MEMORY, "exit_code": None}, "Finished", -9),
        ({"end": ProgramEndReason.OUTPUT_LIMIT, "exit_code": 0}, "Finished", -9),
    ],
)
async def test_program_that_fails_has_its_return_code(
    http: httpx.AsyncClient, executor: ScriptedExecutor, changed: dict[str, object], status: str, code: int
) -> None:
    executor.answer = lambda _: ProgramResult(compiled=None, run=ran(**changed))
    found = await run(http)
    assert found["status"] == "Failed"
    assert (found["run_result"]["status"], found["run_result"]["return_code"]) == (status, code)


async def test_program_that_does_not_compile_has_no_run(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    executor.answer = lambda _: ProgramResult(compiled=ran(exit_code=1, stderr="error: x"), run=None)
    found = await run(http, language="cpp")
    assert (found["status"], found["run_result"]) == ("Failed", None)
    assert found["compile_result"]["stderr"] == "error: x"


async def test_request_reaches_the_program(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    text = base64.b64encode(b"data").decode()
    await run(http, stdin="in", files={"a/b": text}, run_timeout=2, memory_limit_MB=64, args=["-v"])
    (program,) = executor.programs
    assert (program.stdin, program.files, program.arguments) == ("in", {"a/b": {"base64": text}}, ["-v"])
    assert (program.timeout_s, program.memory_mb, program.client) == (2, 64, "sandbox-fusion")


async def test_files_come_back_in_base64(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    executor.answer = lambda _: ProgramResult(compiled=None, run=ran(), files={"a.txt": b"secret"})
    assert (await run(http, fetch_files=["a.txt"]))["files"] == {"a.txt": "c2VjcmV0"}


async def test_unknown_language_is_a_sandbox_error_that_names_the_known_ones(http: httpx.AsyncClient) -> None:
    found = await run(http, language="cobol")
    assert found["status"] == "SandboxError"
    assert "python, pytest, bash" in found["message"]


async def test_daemon_that_can_not_run_it_is_a_sandbox_error(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    def refuse(_: object) -> ProgramResult:
        raise NotReady("not_ready", "the engine is down", status=503, retryable=True)

    executor.answer = refuse
    assert (await run(http))["message"] == "the engine is down"


async def test_lost_run_is_a_sandbox_error(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    executor.answer = lambda _: ProgramResult(
        compiled=None, run=ran(end=ProgramEndReason.OURS, message="The run was lost.")
    )
    found = await run(http)
    assert (found["status"], found["message"]) == ("SandboxError", "The run was lost.")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"{", "body"),
        (b'{"language": "python"}', "code"),
        (b'{"language": "python", "code": 1}', "code"),
        (b'{"language": "python", "code": "", "files": {"a": "?"}}', "files"),
    ],
)
async def test_malformed_request_names_its_field(http: httpx.AsyncClient, body: bytes, place: str) -> None:
    answer = await http.post("/run_code", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["detail"][0]["loc"][1]) == (422, place)


async def test_body_over_the_cap_is_refused(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    answer = await http.post("/run_code", content=b" " * (16 * 2**20 + 1), headers=JSON)
    assert (answer.status_code, executor.programs) == (413, [])


async def test_cells_have_an_answer_each(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    each = {"stdout": "1\n", "stderr": "", "display": [], "error": []}
    files = {fusion.OUTPUT: json.dumps([each]).encode()}
    executor.answer = lambda _: ProgramResult(compiled=None, run=ran(), files=files)
    answer = (await http.post("/run_jupyter", json={"cells": ["print(1)"]})).json()
    assert (answer["status"], answer["cells"], answer["files"]) == ("Success", [each], {})
    assert json.loads(executor.programs[0].files[fusion.INPUT]) == {"cells": ["print(1)"], "timeout_s": 0}


@pytest.mark.parametrize("written", [None, b"", b"[1]", b'[{"stdout": 1}]', b"[" * 100_000])
async def test_cells_whose_answers_are_forged_or_missing_are_a_failure(
    http: httpx.AsyncClient, executor: ScriptedExecutor, written: bytes | None
) -> None:
    files = {} if written is None else {fusion.OUTPUT: written}
    executor.answer = lambda _: ProgramResult(compiled=None, run=ran(), files=files)
    answer = (await http.post("/run_jupyter", json={"cells": ["print(1)"]})).json()
    assert (answer["status"], answer["cells"]) == ("Failed", [])


async def test_daemon_that_is_away_is_not_healthy(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).status_code == 503


async def test_answers_are_counted(http: httpx.AsyncClient) -> None:
    await run(http)
    text = (await http.get("/metrics")).text
    assert 'assayd_compat_requests_total{operation="run_code",status="200"} 1.0' in text


async def test_client_error_outside_a_run_has_a_status(
    http: httpx.AsyncClient, executor: ScriptedExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: str) -> None:
        raise ClientError("daemon.unreachable", "no daemon answers")

    executor.attempt = away  # type: ignore[method-assign]
    assert (await http.get("/submissions/01ARZ3NDEKTSV4RRFFQ69G5FAV")).status_code == 503


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({**JSON, "origin": "https://page.example"}, 403),
    ],
)
async def test_web_page_can_not_run_programs(
    http: httpx.AsyncClient, executor: ScriptedExecutor, headers: dict[str, str], status: int
) -> None:
    answer = await http.post("/run_code", content=b'{"language":"python","code":""}', headers=headers)
    assert (answer.status_code, executor.programs) == (status, [])
