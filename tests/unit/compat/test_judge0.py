from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx
import pytest

from assayd_client.errors import NotReady
from assayd_compat import judge0
from assayd_compat.bodies import BadRequest, RequestByteBudget
from assayd_compat.program import ProgramEndReason, ProgramResult
from support.fakes.scripted_executor import ScriptedExecutor, ran

PROGRAM = {"language_id": 71, "source_code": "print('hi')"}


async def judged(http: httpx.AsyncClient, **changed: object) -> dict[str, Any]:
    answer = await http.post("/submissions?wait=true", json={**PROGRAM, **changed})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_waiting_answers_with_the_default_fields(http: httpx.AsyncClient) -> None:
    found = await judged(http, expected_output="hi")
    token = found.pop("token")
    assert len(token) == 26
    assert found == {
        "stdout": "hi\n",
        "time": "0.125",
        "memory": 4096,
        "stderr": None,
        "compile_output": None,
        "message": None,
        "status": {"id": 3, "description": "Accepted"},
    }


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (ProgramResult(compiled=None, run=ran(stdout="ho")), 4),
        (ProgramResult(compiled=None, run=ran(stdout="  hi")), 4),
        (ProgramResult(compiled=None, run=ran(stdout="hi  \n\n")), 3),
        (ProgramResult(compiled=None, run=ran(end=ProgramEndReason.TIMEOUT, exit_code=None)), 5),
        (ProgramResult(compiled=ran(exit_code=1, stderr="error: x"), run=None), 6),
        (ProgramResult(compiled=None, run=ran(exit_code=None, signal="SIGSEGV")), 7),
        (ProgramResult(compiled=None, run=ran(exit_code=None, signal="SIGXFSZ")), 8),
        (ProgramResult(compiled=None, run=ran(exit_code=None, signal="SIGFPE")), 9),
        (ProgramResult(compiled=None, run=ran(exit_code=None, signal="SIGABRT")), 10),
        (ProgramResult(compiled=None, run=ran(exit_code=1)), 11),
        (ProgramResult(compiled=None, run=ran(exit_code=None, signal="SIGKILL")), 12),
        (ProgramResult(compiled=None, run=ran(end=ProgramEndReason.OUT_OF_MEMORY, exit_code=None)), 12),
        (ProgramResult(compiled=None, run=ran(end=ProgramEndReason.OURS, exit_code=None)), 13),
    ],
)
async def test_end_decides_the_status(
    http: httpx.AsyncClient, executor: ScriptedExecutor, result: ProgramResult, status: int
) -> None:
    executor.answer = lambda _: result
    found = await judged(http, expected_output="hi")
    assert found["status"] == {"id": status, "description": judge0.STATUS_NAME_BY_ID[status]}


async def test_compiler_output_stands_alone(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    executor.answer = lambda _: ProgramResult(compiled=ran(exit_code=1, stderr="error: x"), run=None)
    found = await judged(http, language_id=54)
    assert (found["compile_output"], found["stdout"], found["stderr"]) == ("error: x", None, None)


async def test_without_expected_output_ending_well_is_accepted(http: httpx.AsyncClient) -> None:
    assert (await judged(http))["status"]["id"] == 3


async def test_texts_may_be_base64_both_ways(http: httpx.AsyncClient, executor: ScriptedExecutor) -> None:
    coded = {name: base64.b64encode(text).decode() for name, text in (("source_code", b"x"), ("stdin", b"y"))}
    answer = await http.post("/submissions?wait=true&base64_encoded=true", json={**PROGRAM, **coded})
    assert (executor.programs[0].source, executor.programs[0].stdin) == ("x", "y")
    assert base64.b64decode(answer.json()["stdout"]) == b"hi\n"


async def test_limits_and_arguments_reach_the_program(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    await judged(http, cpu_time_limit=2, wall_time_limit=5, memory_limit=65536, command_line_arguments="-a b")
    (program,) = executor.programs
    assert (program.timeout_s, program.memory_mb, program.arguments) == (2, 64, ["-a", "b"])


async def test_token_leads_to_the_submission_and_its_fields(http: httpx.AsyncClient) -> None:
    token = (await http.post("/submissions", json=PROGRAM)).json()["token"]
    await judged(http)
    found = (await http.get(f"/submissions/{token}?fields=source_code,status_id,token")).json()
    assert found == {"source_code": "print('hi')", "status_id": 3, "token": token}


async def test_token_of_an_earlier_process_leads_to_its_attempt(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    await judged(http, expected_output="hi")
    labels = {**executor.programs[0].labels, "client": "judge0"}
    token = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    execution = {
        "cause": "completed", "stdout": "ho", "stderr": "", "exit_code": 0, "signal": None, "cpu_ms": 1.0,
        "peak_memory_bytes": None,
    }  # fmt: skip
    report = {"findings": [], "runtime_results": None}
    executor.attempts[token] = {
        "id": token, "labels": labels, "verdict": "validated", "execution": execution, "report": report,
        "error": None, "artifacts": [], "rules": [], "state": "finished",
        "created_at": "2026-11-26T01:00:00.000000Z", "finished_at": "2026-11-26T01:00:01.000000Z",
    }  # fmt: skip
    found = (await http.get(f"/submissions/{token}?fields=*")).json()
    assert (found["status_id"], found["language_id"], found["source_code"]) == (4, 71, None)


async def test_attempt_of_another_interface_is_no_submission(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    token = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    executor.attempts[token] = {"id": token, "labels": {"client": "piston"}}
    assert (await http.get(f"/submissions/{token}")).status_code == 404


async def test_batch_has_a_token_or_an_error_each(http: httpx.AsyncClient) -> None:
    answer = await http.post("/submissions/batch", json={"submissions": [PROGRAM, {"language_id": 1}]})
    assert answer.status_code == 201
    first, second = answer.json()
    assert second == {"language_id": ["language with id 1 doesn't exist"]}
    found = (await http.get(f"/submissions/batch?tokens={first['token']},unknown&fields=token")).json()
    assert found == {"submissions": [{"token": first["token"]}, None]}


@pytest.mark.parametrize("count", [0, 21])
async def test_batch_of_too_many_or_none_is_refused(http: httpx.AsyncClient, count: int) -> None:
    assert (await http.post("/submissions/batch", json={"submissions": [PROGRAM] * count})).status_code == 400


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"source_code": ""}, "source_code"),
        ({"language_id": 9999}, "language_id"),
        ({"language_id": "x"}, "language_id"),
        ({"cpu_time_limit": -1}, "cpu_time_limit"),
        ({"additional_files": "UEs="}, "additional_files"),
        ({"enable_network": True}, "enable_network"),
    ],
)
async def test_refusal_names_the_field_with_its_messages(
    http: httpx.AsyncClient, executor: ScriptedExecutor, changed: dict[str, object], field: str
) -> None:
    answer = await http.post("/submissions", json={**PROGRAM, **changed})
    assert (answer.status_code, list(answer.json())) == (422, [field])
    assert executor.programs == []


async def test_unknown_field_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post("/submissions?fields=stdout,colour", json=PROGRAM)
    assert (answer.status_code, answer.json()) == (400, {"error": "invalid fields: ['colour']"})


async def test_unknown_token_is_a_404(http: httpx.AsyncClient) -> None:
    assert (await http.get("/submissions/nothing")).status_code == 404


async def test_daemon_that_can_not_run_it_is_an_internal_error(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    def refuse(_: object) -> ProgramResult:
        raise NotReady("not_ready", "the engine is down", status=503, retryable=True)

    executor.answer = refuse
    found = await judged(http)
    assert (found["status"]["id"], found["message"]) == (13, "the engine is down")


async def test_languages_and_statuses_are_listed(http: httpx.AsyncClient) -> None:
    assert {"id": 71, "name": "Python (3.11.2)"} in (await http.get("/languages")).json()
    assert (await http.get("/languages/71")).json()["source_file"] == "main.py"
    assert (await http.get("/languages/1")).status_code == 404
    assert len((await http.get("/statuses")).json()) == 14


async def test_only_the_newest_submissions_are_kept(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge0, "KEPT", 1)
    token = (await judged(http))["token"]
    await judged(http)
    assert (await http.get(f"/submissions/{token}")).status_code == 404


async def test_submission_waits_in_queue_until_it_has_a_place(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    executor.place.clear()
    token = (await http.post("/submissions", json=PROGRAM)).json()["token"]
    found = (await http.get(f"/submissions/{token}?fields=status")).json()
    assert found == {"status": {"id": 1, "description": "In Queue"}}
    executor.place.set()


@pytest.mark.parametrize(("state", "status"), [("queued", 1), ("running", 2)])
async def test_running_attempt_of_an_earlier_process_is_processed(
    http: httpx.AsyncClient, executor: ScriptedExecutor, state: str, status: int
) -> None:
    token = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    executor.attempts[token] = {"id": token, "labels": {"client": "judge0"}, "verdict": None, "state": state}
    assert (await http.get(f"/submissions/{token}?fields=status_id")).json() == {"status_id": status}


async def test_submission_belongs_to_the_caller_who_created_it(http: httpx.AsyncClient) -> None:
    created = await http.post("/submissions?wait=true", json=PROGRAM, headers={"X-Auth-Token": "alice"})
    url = f"/submissions/{created.json()['token']}"
    assert (await http.get(url, headers={"Authorization": "Bearer alice"})).status_code == 200
    assert (await http.get(url, headers={"Authorization": "Bearer bob"})).status_code == 404
    assert (await http.get(url)).status_code == 404


async def test_configuration_has_the_limits_of_the_profile(http: httpx.AsyncClient) -> None:
    assert (await http.get("/about")).json()["version"] == "1.13.1"
    found = (await http.get("/config_info")).json()
    assert (found["max_cpu_time_limit"], found["max_memory_limit"]) == (30.0, 512 * 1024)
    assert found["max_submission_batch_size"] == 20


async def test_oldest_submissions_are_forgotten_when_they_hold_too_much(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge0, "KEPT_BYTES", 3000)
    first, second, third = [(await judged(http))["token"] for _ in range(3)]
    found = [(await http.get(f"/submissions/{token}")).status_code for token in (first, second, third)]
    assert found == [404, 200, 200]


async def test_submission_is_refused_while_too_much_waits(executor: ScriptedExecutor) -> None:
    submissions = judge0.SubmissionStore(RequestByteBudget(2500))
    asked, program = await judge0._parse_request(json.dumps(PROGRAM).encode(), encoded=False)
    executor.place.clear()
    tasks = [submissions.begin(executor, asked, program)[1] for _ in range(2)]  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="holds too many requests") as caught:
        submissions.begin(executor, asked, program)  # type: ignore[arg-type]
    assert caught.value.status == 503
    executor.place.set()
    await asyncio.gather(*tasks)
    assert submissions.begin(executor, asked, program)[0]  # type: ignore[arg-type]


async def test_callback_is_the_webhook_of_the_run(
    http: httpx.AsyncClient, executor: ScriptedExecutor
) -> None:
    await judged(http, callback_url="https://ci.example/hooks")
    assert executor.programs[0].webhook == "https://ci.example/hooks"
