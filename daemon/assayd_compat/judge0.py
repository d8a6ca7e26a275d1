"""Implements Judge0's interface: languages, statuses, submissions and batches of submissions.

Source: the documentation of Judge0 CE 1.13. A token is the id of the attempt that runs the program, so the
token belongs to the user who submitted the program, and remains valid after this process ends. A label of
the attempt contains the digest of the expected output. Programs that did not compile, or are still being
compiled, are known only to this process.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assayd.clock import UlidGenerator
from assayd_client.errors import ClientError
from assayd_compat.bodies import (
    BadRequest,
    RequestByteBudget,
    get_executor,
    json_response,
    parse_body,
    read_body,
    read_bytes,
    run_while_connected,
)
from assayd_compat.executor import ProgramExecutor
from assayd_compat.languages import LANGUAGE_BY_JUDGE0, Language
from assayd_compat.program import ProcessEnd, Program, ProgramEndReason, ProgramResult, parse_process_end

CLIENT = "judge0"
VERSION = "1.13.1"
MAX_BATCH_SUBMISSIONS = 20
"""The maximum number of submissions in a batch, as in Judge0."""
KEPT = 10_000
"""Maximum submissions in memory; the oldest are dropped first."""
KEPT_BYTES = 64 * 2**20
"""Maximum bytes of programs, inputs and outputs in memory."""
OVERHEAD_BYTES = 1024
"""Bytes of a submission in addition to its strings."""
DEFAULT_FIELDS = ("stdout", "time", "memory", "stderr", "token", "compile_output", "message", "status")
TEXT_FIELDS = ("source_code", "stdin", "expected_output", "stdout", "stderr", "compile_output", "message")
STATUS_NAME_BY_ID = {
    1: "In Queue",
    2: "Processing",
    3: "Accepted",
    4: "Wrong Answer",
    5: "Time Limit Exceeded",
    6: "Compilation Error",
    7: "Runtime Error (SIGSEGV)",
    8: "Runtime Error (SIGXFSZ)",
    9: "Runtime Error (SIGFPE)",
    10: "Runtime Error (SIGABRT)",
    11: "Runtime Error (NZEC)",
    12: "Runtime Error (Other)",
    13: "Internal Error",
    14: "Exec Format Error",
}
QUEUED, PROCESSING, ACCEPTED, WRONG, TIME, COMPILATION, NZEC, OTHER, INTERNAL = 1, 2, 3, 4, 5, 6, 11, 12, 13
SIGNALLED = {"SIGSEGV": 7, "SIGXFSZ": 8, "SIGFPE": 9, "SIGABRT": 10}
LANGUAGE_LABEL, EXPECTED_LABEL = "judge0_language", "judge0_expected"
REFUSED = ("additional_files", "compiler_options")
FIELDS = frozenset(
    {
        *DEFAULT_FIELDS, *TEXT_FIELDS, "language_id", "status_id", "created_at", "finished_at", "exit_code",
        "exit_signal", "wall_time", "cpu_time_limit", "wall_time_limit", "memory_limit", "language",
    }
)  # fmt: skip


CONFIG = {
    "maintenance_mode": False,
    "enable_wait_result": True,
    "enable_compiler_options": False,
    "allowed_languages_for_compile_options": [],
    "enable_command_line_arguments": True,
    "enable_submission_delete": False,
    "enable_callbacks": True,
    "callbacks_max_tries": 1,
    "callbacks_timeout": 0,
    "enable_additional_files": False,
    "enable_batched_submissions": True,
    "max_submission_batch_size": MAX_BATCH_SUBMISSIONS,
    "max_queue_size": KEPT,
    "cpu_extra_time": 0,
    "max_cpu_extra_time": 0,
    "enable_per_process_and_thread_time_limit": False,
    "allow_enable_per_process_and_thread_time_limit": False,
    "enable_per_process_and_thread_memory_limit": False,
    "allow_enable_per_process_and_thread_memory_limit": False,
    "max_file_size": 32768,
    "max_max_file_size": 32768,
    "max_extract_size": 0,
    "number_of_runs": 1,
    "max_number_of_runs": 1,
    "redirect_stderr_to_stdout": False,
    "enable_network": False,
    "allow_enable_network": False,
    "submission_cache_duration": 0,
    "use_docs_as_homepage": False,
}
"""The response to `GET /config_info` for every profile. Sizes are in kilobytes, times in seconds."""


class SubmissionRequest(BaseModel):
    """A program and its expected output. Times are in seconds, and memory is in kilobytes."""

    source_code: str = ""
    language_id: int
    command_line_arguments: str | None = None
    stdin: str | None = None
    expected_output: str | None = None
    cpu_time_limit: float | None = Field(default=None, gt=0)
    wall_time_limit: float | None = Field(default=None, gt=0)
    memory_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    callback_url: str | None = None
    additional_files: str | None = None
    compiler_options: str | None = None
    enable_network: bool | None = None

    @property
    def size(self) -> int:
        """Return the approximate size of the submission in bytes."""
        return (
            len(self.source_code) + len(self.stdin or "") + len(self.expected_output or "") + OVERHEAD_BYTES
        )


class BatchRequest(BaseModel):
    """Several submissions, which are judged separately."""

    submissions: list[Any]


@dataclass(slots=True, kw_only=True)
class KnownSubmission:
    """A submission that this process knows, with its request and, once it has finished, its result.

    Attributes:
        caller: the token of the caller who created the submission; None for the service's own user.
    """

    asked: SubmissionRequest
    caller: str | None
    begun: bool = False
    result: ProgramResult | None = None
    problem: str = ""

    @property
    def size(self) -> int:
        """Return the approximate size of the submission in bytes, including its output."""
        last = self.result and (self.result.run or self.result.compiled)
        return self.asked.size + (len(last.stdout) + len(last.stderr) if last else 0)

    def begin(self) -> None:
        """Record that the program has left the queue."""
        self.begun = True


class SubmissionStore:
    """The submissions of this process by token: those that run, and the most recently finished ones."""

    def __init__(self, room: RequestByteBudget) -> None:
        self._room = room
        self._ids = UlidGenerator()
        self._running: dict[str, tuple[KnownSubmission, asyncio.Task[None]]] = {}
        self._ended: OrderedDict[str, KnownSubmission] = OrderedDict()
        self._bytes = 0

    def begin(
        self, executor: ProgramExecutor, asked: SubmissionRequest, program: Program
    ) -> tuple[str, asyncio.Task[None]]:
        """Start a submission. Return its token, and the task that ends once its result is stored.

        Raises: BadRequest with status 503, if too many submissions are waiting.
        """
        token = self._ids.new()
        submitted = KnownSubmission(asked=asked, caller=executor.caller)
        size = submitted.size
        self._room.reserve(size, executor.caller)
        task = asyncio.create_task(_run_submission(executor, token, submitted, program))
        self._running[token] = submitted, task

        def end(_: asyncio.Task[None]) -> None:
            self._room.release(size, executor.caller)
            self._store_finished(token)

        task.add_done_callback(end)
        return token, task

    def _store_finished(self, token: str) -> None:
        """Store a finished submission, and remove the oldest submissions that exceed the limits."""
        submitted = self._ended[token] = self._running.pop(token)[0]
        self._bytes += submitted.size
        while len(self._ended) > KEPT or (self._bytes > KEPT_BYTES and self._ended):
            self._bytes -= self._ended.popitem(last=False)[1].size

    async def describe(self, executor: ProgramExecutor, token: str) -> dict[str, Any] | None:
        """Return the current fields of a submission, or None if the caller has no such submission."""
        running = self._running.get(token)
        submitted = running[0] if running else self._ended.get(token)
        if submitted is not None and submitted.caller == executor.caller:
            return _describe_submission(
                token, submitted.asked, submitted.result, submitted.problem, waits=not submitted.begun
            )
        attempt = await executor.attempt(token)
        if attempt is None or attempt["labels"].get("client") != CLIENT:
            return None
        result = (
            None
            if attempt["verdict"] is None
            else ProgramResult(compiled=None, run=parse_process_end(attempt))
        )
        return _describe_submission(token, attempt["labels"], result, "", waits=attempt["state"] == "queued")


async def _run_submission(
    executor: ProgramExecutor, token: str, submitted: KnownSubmission, program: Program
) -> None:
    try:
        submitted.result = await executor.run(program, attempt_id=token, begun=submitted.begin)
    except ClientError as problem:
        submitted.problem = problem.message
    except asyncio.CancelledError:
        submitted.problem = "the client hung up"
        raise


async def list_languages(request: Request) -> Response:
    """List the languages with their Judge0 ids."""
    return json_response(
        [{"id": number, "name": found.judge0_name} for number, found in sorted(LANGUAGE_BY_JUDGE0.items())]
    )


async def show_language(request: Request) -> Response:
    """Respond with the language that has the Judge0 id in the path, or with status 404 if there is none."""
    number = request.path_params["number"]
    found = LANGUAGE_BY_JUDGE0.get(number)
    if found is None:
        return json_response({"error": "language not found"}, 404)
    shown = {"id": number, "name": found.judge0_name, "is_archived": False, "source_file": found.file}
    return json_response(
        shown | {"compile_cmd": " ".join(found.compile) or None, "run_cmd": " ".join(found.run)}
    )


async def list_statuses(request: Request) -> Response:
    """List the statuses with their Judge0 ids."""
    return json_response([{"id": number, "description": text} for number, text in STATUS_NAME_BY_ID.items()])


async def show_version(request: Request) -> Response:
    """Return the Judge0 version of this interface, because clients choose language ids by version."""
    return json_response({"version": VERSION, "homepage": "", "source_code": "", "maintainer": ""})


async def show_limits(request: Request) -> Response:
    """Return the limits of the profile for Python programs, under the names that Judge0 uses."""
    limits = await get_executor(request).limits(LANGUAGE_BY_JUDGE0[71].policy)
    seconds, kilobytes = limits["unit_timeout_s"], limits["memory_mb"] * 1024
    return json_response(
        CONFIG
        | dict.fromkeys(("cpu_time_limit", "max_cpu_time_limit"), seconds)
        | dict.fromkeys(("wall_time_limit", "max_wall_time_limit"), limits["timeout_s"])
        | dict.fromkeys(("memory_limit", "max_memory_limit", "stack_limit", "max_stack_limit"), kilobytes)
        | dict.fromkeys(
            ("max_processes_and_or_threads", "max_max_processes_and_or_threads"), limits["max_processes"]
        )
    )


async def create_submission(request: Request) -> Response:
    """Submit one program, and respond with its token.

    With ``wait=true``, respond with its result once it is available.
    """
    encoded = request.query_params.get("base64_encoded") == "true"
    fields = _parse_fields(request)
    try:
        asked, program = await _parse_request(await read_bytes(request), encoded=encoded)
    except BadRequest as problem:
        return json_response({problem.field: [problem.message]}, problem.status)
    submissions, executor = get_submissions(request), get_executor(request)
    token, task = submissions.begin(executor, asked, program)
    if request.query_params.get("wait") != "true":
        return json_response({"token": token}, 201)
    await run_while_connected(request, _wait_for_end(task))
    return json_response(
        _select_fields(await submissions.describe(executor, token) or {}, fields, encoded=encoded), 201
    )


async def _wait_for_end(task: asyncio.Task[None]) -> None:
    await task


async def show_submission(request: Request) -> Response:
    """Respond with the submission that has the token in the path, or with status 404 if there is none."""
    encoded = request.query_params.get("base64_encoded") == "true"
    fields = _parse_fields(request)
    found = await get_submissions(request).describe(get_executor(request), request.path_params["token"])
    if found is None:
        return json_response({"error": "submission not found"}, 404)
    return json_response(_select_fields(found, fields, encoded=encoded))


async def create_batch(request: Request) -> Response:
    """Submit several programs, and respond with a token or the errors for each program.

    If there are none or too many, respond with status 400.
    """
    encoded = request.query_params.get("base64_encoded") == "true"
    given = (await read_body(request, BatchRequest)).submissions
    if not 0 < len(given) <= MAX_BATCH_SUBMISSIONS:
        message = f"a batch has 1 to {MAX_BATCH_SUBMISSIONS} submissions, not {len(given)}"
        return json_response({"error": message}, 400)
    submissions, executor = get_submissions(request), get_executor(request)
    answers: list[dict[str, object]] = []
    for each in given:
        try:
            asked, program = await _parse_request(json.dumps(each).encode(), encoded=encoded)
            answers.append({"token": submissions.begin(executor, asked, program)[0]})
        except BadRequest as problem:
            answers.append({problem.field: [problem.message]})
    return json_response(answers, 201 if any("token" in each for each in answers) else 422)


async def show_batch(request: Request) -> Response:
    """Respond with several submissions. The result for an unknown token is null.

    For no or too many tokens, respond with status 400.
    """
    encoded = request.query_params.get("base64_encoded") == "true"
    fields = _parse_fields(request)
    tokens = [token for token in request.query_params.get("tokens", "").split(",") if token]
    if not 0 < len(tokens) <= MAX_BATCH_SUBMISSIONS:
        return json_response({"error": f"name 1 to {MAX_BATCH_SUBMISSIONS} tokens, not {len(tokens)}"}, 400)
    submissions, executor = get_submissions(request), get_executor(request)
    found = [await submissions.describe(executor, token) for token in tokens]
    shown = [None if each is None else _select_fields(each, fields, encoded=encoded) for each in found]
    return json_response({"submissions": shown})


ROUTES = (
    Route("/languages", list_languages, methods=["GET"]),
    Route("/languages/all", list_languages, methods=["GET"]),
    Route("/languages/{number:int}", show_language, methods=["GET"]),
    Route("/about", show_version, methods=["GET"]),
    Route("/config_info", show_limits, methods=["GET"]),
    Route("/statuses", list_statuses, methods=["GET"]),
    Route("/submissions", create_submission, methods=["POST"]),
    Route("/submissions/", create_submission, methods=["POST"]),
    Route("/submissions/batch", create_batch, methods=["POST"]),
    Route("/submissions/batch", show_batch, methods=["GET"]),
    Route("/submissions/{token}", show_submission, methods=["GET"]),
)


def get_submissions(request: Request) -> SubmissionStore:
    """Return the store of this process's submissions."""
    found: SubmissionStore = request.app.state.submissions
    return found


async def _parse_request(body: bytes, *, encoded: bool) -> tuple[SubmissionRequest, Program]:
    """Parse a request body, and return the request and its program.

    Raises: BadRequest, if the request is invalid or requires an unsupported feature.
    """
    return _decode_request(await parse_body(body, SubmissionRequest), encoded=encoded)


def _decode_request(asked: SubmissionRequest, *, encoded: bool) -> tuple[SubmissionRequest, Program]:
    """Return a request with its base64 strings decoded, and its program.

    Raises: BadRequest, if the request is invalid or requires an unsupported feature.
    """
    for name in REFUSED:
        if getattr(asked, name):
            raise BadRequest(name, "isn't supported here; see docs/compat/judge0.md")
    if asked.enable_network:
        raise BadRequest("enable_network", "network can't be enabled")
    found = LANGUAGE_BY_JUDGE0.get(asked.language_id)
    if found is None:
        raise BadRequest("language_id", f"language with id {asked.language_id} doesn't exist")
    if encoded:
        names = ("source_code", "stdin", "expected_output")
        asked = asked.model_copy(update={name: _decode_field(name, getattr(asked, name)) for name in names})
    if not asked.source_code:
        raise BadRequest("source_code", "can't be empty")
    return asked, _build_program(asked, found)


def _build_program(asked: SubmissionRequest, language: Language) -> Program:
    times = [limit for limit in (asked.cpu_time_limit, asked.wall_time_limit) if limit]
    return Program(
        language=language,
        source=asked.source_code,
        client=CLIENT,
        arguments=(asked.command_line_arguments or "").split(),
        stdin=asked.stdin or "",
        timeout_s=min(times, default=None),
        memory_mb=max(int(asked.memory_limit / 1024), 1) if asked.memory_limit else None,
        labels=_build_labels(asked),
        webhook=asked.callback_url,
    )


def _build_labels(asked: SubmissionRequest) -> dict[str, str]:
    """Return the labels that store a request's data in the attempt for later responses.

    They are the language and, if there is an expected output, its digest.
    """
    number = {LANGUAGE_LABEL: str(asked.language_id)}
    if asked.expected_output is None:
        return number
    return number | {EXPECTED_LABEL: _compute_output_digest(asked.expected_output)}


def _decode_field(name: str, text: str | None) -> str | None:
    """Return a base64 field as text, or None if the field is None.

    Raises: BadRequest, if it isn't base64 of UTF-8.
    """
    if text is None:
        return None
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, ValueError) as problem:
        raise BadRequest(name, "isn't valid base64 of UTF-8") from problem


def _describe_submission(
    token: str,
    asked: SubmissionRequest | Mapping[str, str],
    result: ProgramResult | None,
    problem: str,
    *,
    waits: bool,
) -> dict[str, Any]:
    """Return all fields of a submission.

    `asked` is the submission's request or, if the request is unknown, the attempt's labels.
    """
    labels = _build_labels(asked) if isinstance(asked, SubmissionRequest) else asked
    last = None if result is None else result.run or result.compiled
    status = (
        QUEUED if waits and not problem else _determine_status(labels.get(EXPECTED_LABEL), result, problem)
    )
    broken = result is not None and result.run is None
    shown: dict[str, Any] = {
        "token": token,
        "language_id": int(labels.get(LANGUAGE_LABEL, "0")),
        "status": {"id": status, "description": STATUS_NAME_BY_ID[status]},
        "status_id": status,
        "message": problem or None,
        "compile_output": (last.stderr or None) if broken and last else None,
    }
    given = asked.model_dump(include=set(FIELDS)) if isinstance(asked, SubmissionRequest) else {}
    return dict.fromkeys(FIELDS) | given | shown | (_describe_run(last, broken=broken) if last else {})


def _describe_run(last: ProcessEnd, *, broken: bool) -> dict[str, Any]:
    return {
        "stdout": None if broken else last.stdout or None,
        "stderr": None if broken else last.stderr or None,
        "message": last.message or None,
        "created_at": last.created_at,
        "finished_at": last.finished_at,
        "exit_code": last.exit_code,
        "exit_signal": last.signal_number or None,
        "time": None if last.cpu_s is None else f"{last.cpu_s:.3f}",
        "wall_time": None if last.wall_s is None else f"{last.wall_s:.3f}",
        "memory": None if last.memory_bytes is None else last.memory_bytes // 1024,
    }


def _determine_status(expected: str | None, result: ProgramResult | None, problem: str) -> int:
    """Return the status of a submission, which depends on the digest of the expected output.

    A problem is reported as an internal error, and a missing result as "Processing".
    """
    if problem:
        return INTERNAL
    if result is None:
        return PROCESSING
    return COMPILATION if result.run is None else _determine_run_status(expected, result.run)


def _determine_run_status(expected: str | None, run: ProcessEnd) -> int:
    if run.end is ProgramEndReason.EXITED and run.signal is None:
        right = expected in {None, _compute_output_digest(run.stdout)}
        return NZEC if run.exit_code != 0 else ACCEPTED if right else WRONG
    if run.signal is not None and run.end is ProgramEndReason.EXITED:
        return SIGNALLED.get(run.signal, OTHER)
    return {
        ProgramEndReason.OURS: INTERNAL,
        ProgramEndReason.CANCELLED: INTERNAL,
        ProgramEndReason.TIMEOUT: TIME,
    }.get(run.end, OTHER)


def _compute_output_digest(text: str) -> str:
    """Return the digest of output without trailing whitespace, which Judge0 ignores."""
    stripped = "\n".join(line.rstrip() for line in text.split("\n")).rstrip()
    return hashlib.sha256(stripped.encode()).hexdigest()


def _parse_fields(request: Request) -> Sequence[str]:
    """Return the requested fields. Raises: BadRequest, if a field is unknown."""
    wanted = request.query_params.get("fields", "")
    if wanted == "*":
        return sorted(FIELDS)
    names = [name.strip() for name in wanted.split(",") if name.strip()] or list(DEFAULT_FIELDS)
    unknown = [name for name in names if name not in FIELDS]
    if unknown:
        raise BadRequest("error", f"invalid fields: {unknown}"[:300], 400)
    return names


def _select_fields(found: Mapping[str, Any], fields: Sequence[str], *, encoded: bool) -> dict[str, Any]:
    shown = {name: found.get(name) for name in fields}
    if encoded:
        shown |= {name: _encode_field(text) for name in TEXT_FIELDS if (text := shown.get(name)) is not None}
    return shown


def _encode_field(text: str) -> str:
    return base64.b64encode(text.encode()).decode() + "\n"
