"""Implements version 2 of Piston's interface: `GET /api/v2/runtimes` and `POST /api/v2/execute`.

Source: the API page of the Piston project. The interface uses milliseconds and bytes; a refused request
gets status 400 and a `message`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assayd_client.errors import ClientError
from assayd_compat.bodies import BadRequest, get_executor, json_response, read_body, run_while_connected
from assayd_compat.languages import LANGUAGE_BY_PISTON, LANGUAGES, Language
from assayd_compat.program import ProcessEnd, Program, ProgramEndReason

CLIENT = "piston"
STATUS = {
    ProgramEndReason.TIMEOUT: "TO",
    ProgramEndReason.OUTPUT_LIMIT: "OL",
    ProgramEndReason.OURS: "XX",
    ProgramEndReason.CANCELLED: "XX",
}


class PistonFile(BaseModel):
    """A file in a request; the first file is the program."""

    name: str | None = None
    content: str
    encoding: Literal["utf8", "base64", "hex"] | None = None


class ExecuteRequest(BaseModel):
    """A request to run a program. A limit of -1 means the profile's limit."""

    language: str
    version: str
    files: list[PistonFile] = Field(min_length=1)
    stdin: str | None = None
    args: list[str] | None = None
    compile_timeout: float | None = None
    run_timeout: float | None = None
    compile_memory_limit: float | None = Field(None, allow_inf_nan=False)
    run_memory_limit: float | None = Field(None, allow_inf_nan=False)
    compile_cpu_time: float | None = None
    run_cpu_time: float | None = None


async def list_runtimes(request: Request) -> Response:
    """List the languages."""
    return json_response(
        [
            {"language": language.piston[0], "version": language.version, "aliases": language.piston[1:]}
            for language in LANGUAGES
            if language.piston
        ]
    )


async def execute_program(request: Request) -> Response:
    """Compile and run one program, and respond with the result of each stage.

    Respond to an invalid request with status 400 and a `message`.
    """
    try:
        asked = await read_body(request, ExecuteRequest)
        program = _build_program(asked)
    except BadRequest as problem:
        status = problem.status if problem.status != 422 else 400
        return json_response({"message": f"{problem.field}: {problem.message}"}, status)
    try:
        result = await run_while_connected(request, get_executor(request).run(program))
    except ClientError as problem:
        return json_response(
            {"message": problem.message}, 500 if problem.retryable or not problem.status else 400
        )
    stages = {
        "compile": _describe_stage(result.compiled),
        "run": _describe_stage(result.run or result.compiled),
    }
    document = {"language": program.language.piston[0], "version": program.language.version}
    return json_response(document | {name: stage for name, stage in stages.items() if stage is not None})


ROUTES = (
    Route("/api/v2/runtimes", list_runtimes, methods=["GET"]),
    Route("/api/v2/execute", execute_program, methods=["POST"]),
)


def _build_program(asked: ExecuteRequest) -> Program:
    """Convert a Piston request to a program.

    Raises: BadRequest, if the language or version is unknown, or a file is invalid.
    """
    language = LANGUAGE_BY_PISTON.get(asked.language)
    if language is None or not _matches_version(language, asked.version):
        raise BadRequest("language", f"{asked.language}-{asked.version} runtime is unknown")
    main, *others = asked.files
    if main.encoding not in {None, "utf8"}:
        raise BadRequest("files[0].encoding", "the program must be utf8")
    times = [value / 1000 for value in (asked.run_timeout, asked.run_cpu_time) if value and value > 0]
    compile_ms = asked.compile_timeout or asked.compile_cpu_time
    return Program(
        language=language,
        source=main.content,
        client=CLIENT,
        files={
            other.name or "": _convert_file(number, other) for number, other in enumerate(others, start=1)
        },
        arguments=asked.args or (),
        stdin=asked.stdin or "",
        timeout_s=min(times, default=None),
        compile_timeout_s=compile_ms / 1000 if compile_ms and compile_ms > 0 else None,
        memory_mb=_to_megabytes(asked.run_memory_limit),
    )


def _matches_version(language: Language, version: str) -> bool:
    """Return whether a language's version matches the requested one.

    The requested version is `*` or the beginning of a version (`3.x`, `3.11`).
    """
    wanted = [part for part in version.lstrip("^~>=v").split(".") if part not in {"*", "x", ""}]
    return language.version.split(".")[: len(wanted)] == wanted


def _convert_file(number: int, file: PistonFile) -> object:
    """Convert a file to the format of a submission: text, or an object with base64.

    Raises: BadRequest, if the file has no name, or its content isn't in its encoding.
    """
    if not file.name:
        raise BadRequest(f"files[{number}].name", "a further file needs a name")
    if file.encoding in {None, "utf8"}:
        return file.content
    try:
        raw = (
            bytes.fromhex(file.content)
            if file.encoding == "hex"
            else base64.b64decode(file.content, validate=True)
        )
    except (binascii.Error, ValueError) as problem:
        raise BadRequest(f"files[{number}].content", f"the content isn't valid {file.encoding}") from problem
    return {"base64": base64.b64encode(raw).decode()}


def _to_megabytes(limit_bytes: float | None) -> int | None:
    return int(limit_bytes / 2**20) if limit_bytes and limit_bytes > 0 else None


def _describe_stage(ended: ProcessEnd | None) -> dict[str, object] | None:
    if ended is None:
        return None
    killed = ended.end is not ProgramEndReason.EXITED
    status = STATUS.get(ended.end) or ("SG" if ended.signal else "RE" if ended.exit_code else None)
    return {
        "stdout": ended.stdout,
        "stderr": ended.stderr,
        "output": ended.stdout + ended.stderr,
        "code": None if killed or ended.signal else ended.exit_code,
        "signal": ended.signal or ("SIGKILL" if killed else None),
        "message": ended.message or None,
        "status": status,
        "cpu_time": _to_milliseconds(ended.cpu_s),
        "wall_time": _to_milliseconds(ended.wall_s),
        "memory": ended.memory_bytes,
    }


def _to_milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
