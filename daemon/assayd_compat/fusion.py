"""Implements SandboxFusion's interface: `POST /run_code`, and `POST /run_jupyter` with a notebook's cells.

Source: SandboxFusion's published OpenAPI description, version 0.3. Errors have SandboxFusion's format: status
200 with `SandboxError` for a failure of the sandbox, and status 422 for an invalid request.

A notebook's cells run as one program; the cells share state, but their output and errors are separate. The
driver below is submitted as the program. It reads the cells from one file and writes each cell's result to
another file. The driver is untrusted too: code in a cell can forge the results, but has no other effect.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assayd_client.errors import ClientError
from assayd_compat.bodies import (
    BadRequest,
    get_executor,
    get_reservation,
    json_response,
    read_body,
    run_while_connected,
)
from assayd_compat.languages import BY_NAME, Language
from assayd_compat.program import ProcessEnd, Program, ProgramEndReason, ProgramResult

INPUT = ".cells.json"
OUTPUT = ".answers.json"
MOST_CELLS = 500
_TYPE_BY_FIELD = {"stdout": str, "stderr": str, "display": list, "error": list}

DRIVER = """
import ast, contextlib, io, json, signal, sys, traceback

with open(".cells.json", encoding="utf-8") as file:
    asked = json.load(file)
space = {"__name__": "__main__", "__builtins__": __builtins__}
answers = []


def over(number, frame):
    raise TimeoutError(f"the cell ran longer than {asked['timeout_s']} seconds")


def run(source, display):
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
        if value is not None:
            display.append({"text/plain": repr(value)})


signal.signal(signal.SIGALRM, over)
for source in asked["cells"]:
    out, err, display, error = io.StringIO(), io.StringIO(), [], []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        signal.setitimer(signal.ITIMER_REAL, asked["timeout_s"])
        try:
            run(source, display)
        except BaseException as problem:
            lines = traceback.format_exception(problem)
            error.append({"ename": type(problem).__name__, "evalue": str(problem), "traceback": lines})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    answers.append(
        {"stdout": out.getvalue(), "stderr": err.getvalue(), "display": display, "error": error}
    )
with open(".answers.json", "w", encoding="utf-8") as file:
    json.dump(answers, file)
"""


def encode_cells(cells: list[str], timeout_s: float) -> str:
    """Return the input file of the driver. A time limit of 0 means that cells have no time limit."""
    return json.dumps({"cells": cells, "timeout_s": timeout_s})


def parse_results(answers: bytes | None) -> list[dict[str, Any]] | None:
    """Return the result of each cell, or None if the program wrote no valid results."""
    try:
        found = json.loads(answers) if answers is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(_is_cell_answer(each) for each in found):
        return None
    return found


def _is_cell_answer(each: object) -> bool:
    return (
        isinstance(each, dict)
        and each.keys() == _TYPE_BY_FIELD.keys()
        and all(isinstance(each[name], kind) for name, kind in _TYPE_BY_FIELD.items())
    )


CLIENT = "sandbox-fusion"
UNKNOWN_LANGUAGE_MESSAGE = "no image of this daemon has the language {name!r}; use one of {known}"


class RunCodeRequest(BaseModel):
    """A program to run. Times are in seconds; a negative memory limit means the profile's limit."""

    code: str
    language: str
    compile_timeout: float = 10
    run_timeout: float = 10
    memory_limit_MB: int = -1  # noqa: N815 - the wire's name
    stdin: str | None = None
    files: dict[str, str | None] = Field(default_factory=dict)
    fetch_files: list[str] = Field(default_factory=list)
    args: list[str] = Field(default_factory=list)


class RunJupyterRequest(BaseModel):
    """A request to run cells in one interpreter, in the given order."""

    cells: Annotated[list[str], Field(max_length=MOST_CELLS)]
    cell_timeout: float = 0
    total_timeout: float = 45
    memory_limit_MB: int = -1  # noqa: N815 - the wire's name
    kernel: Literal["python3"] = "python3"
    files: dict[str, str | None] = Field(default_factory=dict)
    fetch_files: list[str] = Field(default_factory=list)


async def run_code(request: Request) -> Response:
    """Compile and run one program, and respond with its result.

    If it couldn't be run, respond with `SandboxError`.
    """
    asked = await read_body(request, RunCodeRequest)
    language = BY_NAME.get(asked.language)
    if language is None:
        return json_response(
            _build_sandbox_error(
                UNKNOWN_LANGUAGE_MESSAGE.format(name=asked.language, known=", ".join(BY_NAME))
            )
        )
    program = _build_program(asked, language)
    try:
        result = await run_while_connected(
            request, get_executor(request).run(program, hold=get_reservation(request).add)
        )
    except ClientError as problem:
        return json_response(_build_sandbox_error(problem.message))
    return json_response(_build_code_answer(result))


async def run_jupyter(request: Request) -> Response:
    """Run notebook cells that share their state, and respond with each cell's result.

    If they couldn't be run, respond with `SandboxError`.
    """
    asked = await read_body(request, RunJupyterRequest)
    program = Program(
        language=BY_NAME["python"],
        source=DRIVER,
        client=CLIENT,
        files={
            **_convert_files(asked.files),
            INPUT: encode_cells(asked.cells, asked.cell_timeout),
        },
        timeout_s=asked.total_timeout,
        memory_mb=asked.memory_limit_MB,
        collect=(*asked.fetch_files, OUTPUT),
    )
    try:
        result = await run_while_connected(
            request, get_executor(request).run(program, hold=get_reservation(request).add)
        )
    except ClientError as problem:
        return json_response({**_build_sandbox_error(problem.message), "driver": None, "cells": []})
    ran = parse_results(result.files.get(OUTPUT))
    over = result.run is None or not result.run.has_succeeded or ran is None
    return json_response(
        {
            "status": "Failed" if over else "Success",
            "message": result.run.message if result.run and over else "",
            "driver": _build_command_result(result.run),
            "cells": ran or [],
            "executor_pod_name": None,
            "files": _encode_files(result, without=OUTPUT),
        }
    )


ROUTES = (
    Route("/run_code", run_code, methods=["POST"]),
    Route("/run_jupyter", run_jupyter, methods=["POST"]),
)


def _build_program(asked: RunCodeRequest, language: Language) -> Program:
    return Program(
        language=language,
        source=asked.code,
        client=CLIENT,
        files=_convert_files(asked.files),
        arguments=asked.args,
        stdin=asked.stdin or "",
        timeout_s=asked.run_timeout,
        compile_timeout_s=asked.compile_timeout,
        memory_mb=asked.memory_limit_MB,
        collect=asked.fetch_files,
    )


def _convert_files(given: dict[str, str | None]) -> dict[str, object]:
    """Convert files to the format of a submission. Raises: BadRequest, if the content isn't base64."""
    for name, content in given.items():
        try:
            base64.b64decode(content or "", validate=True)
        except (binascii.Error, ValueError) as problem:
            raise BadRequest(f"files.{name}", "the content isn't valid base64") from problem
    return {name: {"base64": content or ""} for name, content in given.items()}


def _build_code_answer(result: ProgramResult) -> dict[str, object]:
    last = result.run or result.compiled
    if last is None or last.end is ProgramEndReason.OURS:
        return _build_sandbox_error(last.message if last else "the program did not run")
    return {
        "status": "Success" if result.run is not None and result.run.has_succeeded else "Failed",
        "message": "" if last.end is ProgramEndReason.EXITED else last.message,
        "compile_result": _build_command_result(result.compiled),
        "run_result": _build_command_result(result.run),
        "executor_pod_name": None,
        "files": _encode_files(result),
    }


def _build_command_result(ended: ProcessEnd | None) -> dict[str, object] | None:
    if ended is None:
        return None
    over = ended.end is ProgramEndReason.TIMEOUT
    return {
        "status": "TimeLimitExceeded" if over else "Finished",
        "execution_time": ended.wall_s,
        "return_code": None if over else _compute_return_code(ended),
        "stdout": ended.stdout,
        "stderr": ended.stderr,
    }


def _compute_return_code(ended: ProcessEnd) -> int:
    """Return an exit code as in `subprocess`: -N for signal N.

    For an exceeded limit without an exit code, return -9.
    """
    if ended.signal is not None:
        return -ended.signal_number
    if ended.exit_code is None or (ended.end is not ProgramEndReason.EXITED and ended.exit_code == 0):
        return -9
    return ended.exit_code


def _encode_files(result: ProgramResult, without: str = "") -> dict[str, str]:
    return {
        name: base64.b64encode(content).decode() for name, content in result.files.items() if name != without
    }


def _build_sandbox_error(message: str) -> dict[str, object]:
    return {
        "status": "SandboxError",
        "message": message,
        "compile_result": None,
        "run_result": None,
        "executor_pod_name": None,
        "files": {},
    }
