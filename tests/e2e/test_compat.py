"""Requests of SandboxFusion's, Piston's and Judge0's clients, with real containers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from support.daemons.compat import compat_on
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def judge(daemon: DaemonProcess) -> Iterator[httpx.Client]:
    """Return a client of the service."""
    with compat_on(daemon.socket, {}) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def run(judge: httpx.Client, code: str, language: str = "python", **body: object) -> dict[str, Any]:
    answer = judge.post("/run_code", json={"language": language, "code": code, **body})
    assert answer.status_code == 200
    return answer.json()


def test_program_reads_its_input_and_files_and_leaves_files(judge: httpx.Client) -> None:
    code = "print(input() + open('a/b.txt').read()); open('out.bin', 'wb').write(b'left')"
    files = {"a/b.txt": base64.b64encode(b"file").decode()}
    found = run(judge, code, stdin="in", files=files, fetch_files=["out.bin", "missing", "/mnt/x"])
    assert (found["status"], found["run_result"]["stdout"]) == ("Success", "infile\n")
    assert found["files"] == {"out.bin": base64.b64encode(b"left").decode()}


def test_exception_is_on_standard_error(judge: httpx.Client) -> None:
    found = run(judge, "assert 1 == 2")
    assert (found["status"], found["run_result"]["return_code"]) == ("Failed", 1)
    assert "AssertionError" in found["run_result"]["stderr"]


def test_source_that_is_not_python_is_told_by_the_interpreter(judge: httpx.Client) -> None:
    found = run(judge, "int a = 1")
    assert (found["status"], found["run_result"]["return_code"]) == ("Failed", 1)
    assert "SyntaxError: invalid syntax" in found["run_result"]["stderr"]


def test_program_that_is_too_slow_is_over_its_time_limit(judge: httpx.Client) -> None:
    found = run(judge, "import time; time.sleep(9)", run_timeout=1)
    assert (found["status"], found["run_result"]["status"]) == ("Failed", "TimeLimitExceeded")


def test_arguments_reach_the_program(judge: httpx.Client) -> None:
    found = run(judge, "import sys; print(sys.argv[1:])", args=["-a", "b c"])
    assert found["run_result"]["stdout"] == "['-a', 'b c']\n"


def test_bash_runs(judge: httpx.Client) -> None:
    assert (
        run(judge, 'read x; echo "$x" | tr a-z A-Z', "bash", stdin="up\n")["run_result"]["stdout"] == "UP\n"
    )


def test_pytest_decides_by_its_tests(judge: httpx.Client) -> None:
    assert run(judge, "def test(): assert 1 + 1 == 2", "pytest")["status"] == "Success"
    assert run(judge, "def test(): assert 1 + 1 == 3", "pytest")["run_result"]["return_code"] == 1


def test_cells_share_their_state_and_go_on_after_an_error(judge: httpx.Client) -> None:
    cells = ["a = 20", "a + 1", "print(a)", "1 / 0", "print('still')"]
    found = judge.post("/run_jupyter", json={"cells": cells}).json()
    assert found["status"] == "Success"
    assert found["cells"][1]["display"] == [{"text/plain": "21"}]
    assert [cell["stdout"] for cell in found["cells"]] == ["", "", "20\n", "", "still\n"]
    assert found["cells"][3]["error"][0]["ename"] == "ZeroDivisionError"


def test_more_output_than_is_kept_is_cut_and_more_than_is_read_is_a_failure(judge: httpx.Client) -> None:
    cut = run(judge, "print('x' * 1_000_000)")
    assert (cut["status"], len(cut["run_result"]["stdout"]) < 300_000) == ("Success", True)
    endless = run(judge, "while True: print('x' * 100_000)")
    assert (endless["status"], endless["run_result"]["return_code"]) == ("Failed", -9)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a//b"])
def test_file_outside_the_work_directory_is_refused(judge: httpx.Client, path: str) -> None:
    found = run(judge, "print(1)", files={path: ""})
    assert found["status"] == "SandboxError"
    assert path in found["message"]


def test_piston_runs_a_program(judge: httpx.Client) -> None:
    body = {"language": "py", "version": "3.x", "files": [{"content": "print(input())"}], "stdin": "hi"}
    found = judge.post("/api/v2/execute", json=body).json()
    assert (found["run"]["stdout"], found["run"]["code"], found["run"]["status"]) == ("hi\n", 0, None)


def test_piston_answers_a_request_with_every_field_of_its_documentation(judge: httpx.Client) -> None:
    body = {
        "language": "python",
        "version": "3.11.2",
        "files": [
            {"name": "main.py", "content": "import sys; print(sys.argv[1:], input(), open('b.txt').read())"},
            {"name": "b.txt", "content": "YnllcyE=", "encoding": "base64"},
        ],
        "stdin": "hello",
        "args": ["1", "2", "3"],
        "compile_timeout": 10000,
        "run_timeout": 3000,
        "compile_memory_limit": -1,
        "run_memory_limit": -1,
    }
    found = judge.post("/api/v2/execute", json=body).json()
    assert (found["language"], found["version"], "compile" in found) == ("python", "3.11.2", False)
    assert found["run"]["stdout"] == found["run"]["output"] == "['1', '2', '3'] hello byes!\n"
    assert (found["run"]["stderr"], found["run"]["code"], found["run"]["signal"]) == ("", 0, None)


def test_judge0_answers_in_base64_what_was_asked_in_base64(judge: httpx.Client) -> None:
    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    body = {"language_id": 71, "source_code": encoded("print(input())"), "stdin": encoded("ä")}
    url = "/submissions?base64_encoded=true&wait=true&fields=stdout,status_id"
    found = judge.post(url, json={**body, "expected_output": encoded("ä")}).json()
    assert (base64.b64decode(found["stdout"]).decode(), found["status_id"]) == ("ä\n", 3)


@pytest.mark.parametrize(
    ("signal", "status"), [("SEGV", 7), ("XFSZ", 8), ("FPE", 9), ("ABRT", 10), ("TERM", 12)]
)
def test_judge0_names_the_signal_that_ended_a_program(judge: httpx.Client, signal: str, status: int) -> None:
    reset = f"signal.signal(signal.SIG{signal}, signal.SIG_DFL)"  # Python ignores one of them
    code = f"import os, signal; {reset}; os.kill(os.getpid(), signal.SIG{signal})"
    body = {"language_id": 71, "source_code": code}
    found = judge.post("/submissions?wait=true&fields=status_id", json=body).json()
    assert found == {"status_id": status}


def test_judge0_accepts_and_rejects(judge: httpx.Client) -> None:
    body = {
        "language_id": 71,
        "source_code": "print(int(input()) * 2)",
        "stdin": "21",
        "expected_output": "42",
    }
    assert judge.post("/submissions?wait=true", json=body).json()["status"]["id"] == 3
    wrong = judge.post("/submissions?wait=true", json={**body, "expected_output": "43"}).json()
    assert wrong["status"] == {"id": 4, "description": "Wrong Answer"}


def test_judge0_token_outlives_the_service(daemon: DaemonProcess, judge: httpx.Client) -> None:
    body = {"language_id": 46, "source_code": "echo no", "expected_output": "yes"}
    token = judge.post("/submissions?wait=true", json=body).json()["token"]
    with compat_on(daemon.socket, {}) as url:
        found = httpx.get(f"{url}/submissions/{token}").json()
    assert (found["status"]["id"], found["stdout"]) == (4, "no\n")


def test_runs_are_attempts_with_a_label(daemon: DaemonProcess, judge: httpx.Client) -> None:
    run(judge, "print('labelled')")
    with daemon.client() as client:
        page = client.attempts(label=["client=sandbox-fusion", "language=python"], limit=1)
    assert page["attempts"][0]["kind"] == "script"


def test_many_clients_at_once_get_their_own_answers(judge: httpx.Client) -> None:
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda number: run(judge, f"print({number})"), range(48)))
    assert [each["run_result"]["stdout"] for each in found] == [f"{number}\n" for number in range(48)]


def test_daemon_answers_health(judge: httpx.Client) -> None:
    assert judge.get("/healthz").text == "ok"
