"""Builds a submission from a command line, with its sample paths; submits it, and waits for the verdict.

Collects the sample paths that a command line specifies: single paths, lists, or files of a folder.

This module decides which paths represent a large set. The number of paths is limited by the daemon.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from zlib import crc32

import typer

from assayd.errors import AssaydError, RequestError
from assayd.ports.command_line import STDIN, FileOptions
from assayd_client import (
    ClientError,
    Conflict,
    DaemonUnreachable,
    Document,
    NotFound,
    PlainClient,
    Refused,
    StreamEvent,
)
from assayd_client.cli.kinds import get_command_line
from assayd_client.cli.listing import FILE_LABEL
from assayd_client.cli.options import CANCELLED
from assayd_client.cli.report import UNKNOWN, SubmissionOrigin, iter_stage_lines
from assayd_client.cli.terminal import StyledLine, TerminalOutput, build_line, format_count, get_stderr, plain
from assayd_client.trees import TreeWalk, compute_shape, group_by_shape

MAX_PATHS_PER_SHAPE = 3
"""Maximum number of paths to choose for each shape in a folder."""
MAX_CHOSEN_PATHS = 50
"""Maximum number of paths to choose from a folder in total."""
MAX_BYTES = 16 * 2**20
"""Maximum size of a file with a list of paths."""

SamplePath = Annotated[
    list[str] | None, typer.Option(metavar="P", help="Try the code on this path (repeatable).")
]
SamplePaths = Annotated[
    Path | None,
    typer.Option(
        "--sample-paths",
        metavar="FILE",
        help="Try the code on each path in this file, one per line; - is standard input.",
    ),
]
SampleTree = Annotated[
    Path | None,
    typer.Option(
        "--sample-tree", metavar="DIR", help="Try the code on some paths of each shape in this folder."
    ),
]


@dataclass(slots=True)
class ShapeGroup:
    """The number of paths of one shape, and the paths that represent them."""

    count: int
    chosen: list[str]


def collect_sample_paths(
    named: Sequence[str] | None, listed: Path | None, tree: Path | None, files: Sequence[Path] = ()
) -> tuple[str, ...]:
    """Return the distinct sample paths from single paths, a list file, and a folder tree.

    A summary of the folder is printed on standard error.

    Raises: RequestError ``usage`` or ``file.unreadable``, if the list or the folder can't be used.
    """
    if listed == Path("-") and Path("-") in files:
        raise RequestError(
            "usage", "both --sample-paths - and the file - read standard input; name a file for one of them"
        )
    paths = [*(named or ()), *(() if listed is None else read_lines(listed))]
    if tree is not None:
        groups = group_files_by_shape(tree)
        chosen = list(select_sample_paths(groups))
        _print_selection(tree, groups, chosen)
        paths += chosen
    return tuple(dict.fromkeys(paths))


def read_lines(file: Path) -> list[str]:
    """Return the non-empty lines of a file. Raises: RequestError ``file.unreadable``."""
    source = "standard input" if file == Path("-") else str(file)
    try:
        if file == Path("-"):
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with file.open("rb") as opened:
                content = opened.read(MAX_BYTES + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise RequestError("file.unreadable", f"--sample-paths: {source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RequestError("file.unreadable", f"--sample-paths: {source} isn't valid UTF-8") from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    paths = [line for line in lines if line]
    if len(content) > MAX_BYTES or not paths:
        fault = "larger than 16 MiB" if paths else "empty"
        raise RequestError("usage", f"--sample-paths: {source} is {fault}; write one path per line")
    return paths


def group_files_by_shape(tree: Path) -> dict[str, ShapeGroup]:
    """Group the files below a folder by shape, the largest group first, ignoring symbolic links.

    Raises: RequestError ``usage``, if it isn't a folder or has no file whose path can be submitted.
    """
    if not tree.is_dir():
        fault = "not a folder" if tree.exists() else "no such folder"
        raise RequestError("usage", f"--sample-tree: {tree}: {fault}")
    groups: dict[str, ShapeGroup] = {}
    for path in (found.path for found in TreeWalk(tree).files() if found.code is None):
        group = groups.setdefault(compute_shape(path), ShapeGroup(count=0, chosen=[]))
        group.count += 1
        # The smallest checksums: an even sample of any number of paths, and the same at the next call.
        group.chosen = sorted([*group.chosen, path], key=_build_checksum_key)[:MAX_PATHS_PER_SHAPE]
    if not groups:
        raise RequestError("usage", f"--sample-tree: {tree} contains no readable files; name another folder")
    return dict(sorted(groups.items(), key=lambda item: (-item[1].count, item[0])))


def select_sample_paths(groups: Mapping[str, ShapeGroup]) -> Iterator[str]:
    """Yield at most `MAX_CHOSEN_PATHS` paths.

    Every shape is represented by one path before any shape is represented by a second path.
    """
    rounds = (
        group.chosen[number]
        for number in range(MAX_PATHS_PER_SHAPE)
        for group in groups.values()
        if number < len(group.chosen)
    )
    return (path for _, path in zip(range(MAX_CHOSEN_PATHS), rounds, strict=False))


def _build_checksum_key(path: str) -> tuple[int, str]:
    return crc32(path.encode()), path


def _print_selection(tree: Path, groups: Mapping[str, ShapeGroup], chosen: Sequence[str]) -> None:
    total = sum(group.count for group in groups.values())
    shapes = len(group_by_shape(chosen))
    of = f" of {len(groups)}" if shapes < len(groups) else ""
    print(
        f"assay: {plain(str(tree))} has {format_count(total, 'file')} "
        f"of {format_count(len(groups), 'shape')}; "
        f"chosen: {format_count(len(chosen), 'path')} of {shapes}{of}",
        file=sys.stderr,
    )


MAX_OUTAGE_S = 60.0
"""Seconds for which a daemon can be unavailable before following ends; the batch continues later."""
LOOK_AGAIN_S = 0.5


class RetryTimer:
    """A timer that waits for an unavailable daemon, for up to `AWAY_S` seconds from the first failure."""

    def __init__(self) -> None:
        self._since: float | None = None

    def answered(self) -> None:
        """Record a response, so that the next failure starts a new waiting period."""
        self._since = None

    def wait(self, problem: ClientError) -> None:
        """Wait before the next try.

        Raises: `problem`, if it has lasted too long or a retry can't succeed.
        """
        self._since = self._since or time.monotonic()
        if not problem.retryable or time.monotonic() - self._since > MAX_OUTAGE_S:
            raise problem
        time.sleep(LOOK_AGAIN_S)


def iter_batch_results(client: PlainClient, batch_id: str) -> Iterator[Document]:
    """Yield every item of a batch once, in line order, waiting while the daemon is unreachable."""
    patience, done = RetryTimer(), 0
    while True:
        try:
            for number, result in enumerate(client.batch_results(batch_id)):
                if number >= done:
                    yield result
                    patience.answered()
                    done += 1
        except ClientError as problem:
            patience.wait(problem)
        else:
            return


@contextmanager
def cancel_on_interrupt(cancel: Callable[[str], object], work_id: str, noun: str = "") -> Iterator[None]:
    """Cancel work in the daemon and exit if a keyboard interrupt ends the body.

    `noun` precedes the id in the message.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        with suppress(Conflict):  # it had ended meanwhile
            cancel(work_id)
        print(f"assay: {noun}{work_id} is cancelled", file=sys.stderr)
        raise SystemExit(CANCELLED) from interrupt


LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
"""The pattern for a label's value."""
WORDS = {
    "queued": "waiting for a turn",
    "checking": "reading the source",
    "leasing": "waiting for a container",
    "running": "running",
    "judging": "judging",
    "finished": "finished",
}
MAX_OUTPUT_TAIL_LINES = 8
"""Maximum number of output lines to show while the code runs."""
MOST_CHARS = 1000
"""Maximum number of characters of one output line."""


class ProgressView:
    """The known state of an attempt, updated by `apply` and displayed by `lines`."""

    def __init__(self, kind: str) -> None:
        self._noun = get_command_line(kind).case
        self._stages: list[Document] = []
        self._state = "queued"
        self._unit: Document | None = None
        self._printed: deque[str] = deque([""], maxlen=MAX_OUTPUT_TAIL_LINES + 1)

    def apply(self, event: StreamEvent) -> None:
        """Update the known state with one event of the attempt."""
        body = event.body
        if event.kind == "state":
            self._state = body.get("state", self._state)
        elif event.kind == "stage":
            self._stages.append(
                {
                    "name": str(body.get("name")),
                    "status": body.get("status", "passed"),
                    "duration_ms": body.get("duration_ms", 0.0),
                    "findings": [None] * int(body.get("findings") or 0),
                }
            )
        elif event.kind == "unit":
            self._unit = body
        elif event.kind in {"stdout", "stderr"}:
            first, *others = str(body.get("text", "")).split("\n")
            self._printed[-1] = (self._printed[-1] + first)[:MOST_CHARS]
            self._printed.extend(each[:MOST_CHARS] for each in others)

    def lines(self) -> Iterator[StyledLine]:
        """Yield the lines to show, with stages, the current action, and the code's last output."""
        yield from iter_stage_lines(self._stages)
        yield build_line(("▸ ", "cyan"), self._current_activity())
        printed = [each for each in self._printed if each][-MAX_OUTPUT_TAIL_LINES:]
        yield from (build_line(("  │ ", "dim"), plain(each.expandtabs(8))) for each in printed)

    def _current_activity(self) -> str:
        if self._state == "running" and self._unit is not None:
            total = int(self._unit.get("total") or 0)
            return f"sandbox ▸ {self._unit.get('index')}/{format_count(total, self._noun)}"
        return WORDS.get(self._state, self._state)


def follow_attempt(client: PlainClient, attempt: Document, screen: TerminalOutput) -> None:
    """Show the progress of an attempt until it is finished, and then restore the screen."""
    progress = ProgressView(attempt["kind"])
    drawn = screen.redraw(progress.lines(), 0)
    try:
        for event in client.events(attempt["id"]):
            progress.apply(event)
            drawn = screen.redraw(progress.lines(), drawn)
    except AssaydError:
        return  # only the display is lost: the call that waits for the verdict reports the error
    finally:
        screen.redraw((), drawn)


WAIT_S = 600.0
MAX_FILES_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRequest:
    """The command-line options from which a submission is built."""

    kind: str
    files: Sequence[Path]
    input: Path | None
    sample_paths: Sequence[str]
    policy: str | None
    settings: Sequence[str]
    labels: Sequence[str]
    options: Sequence[str]
    cases: Path | None = None
    intent: str | None = None
    webhook: str | None = None


def build_submission(
    request: ValidateRequest, client: PlainClient | None = None
) -> tuple[dict[str, object], SubmissionOrigin]:
    """Build the submission that a command line specifies, and return it with its files.

    The `client` is used to query the daemon about a kind that isn't installed here.

    Raises: RequestError, with the name of the option or file that causes the error; ClientError.
    """
    from assayd_client.cli.kinds import build_schema_files_reader, get_files_reader

    try:
        from_files = get_files_reader(request.kind)
    except RequestError as unknown:
        if client is None or unknown.code != "kind.unknown":
            raise
        try:
            from_files = build_schema_files_reader(_fetch_kind(client, request.kind))
        except DaemonUnreachable:
            raise unknown from None  # more likely a mistyped name than a kind that only the daemon has
    cases = read_cases(request.cases)
    options = FileOptions(
        sample_paths=tuple(request.sample_paths) or list_case_paths(cases),
        input=read_input(request.input),
        extra=dict(_parse_pair(text, "--option") for text in request.options),
    )
    read = read_files(request.files)
    texts = {name: content for name, (_, content) in read.items()}
    payload = dict(from_files(texts, options))
    submission: dict[str, object] = {
        "kind": request.kind,
        "payload": {**payload, "cases": cases} if cases else payload,
    }
    if request.intent is not None:
        submission["intent"] = read_text_option(request.intent)
    if request.webhook is not None:
        submission["webhook"] = request.webhook
    if request.policy is not None:
        submission["policy"] = request.policy
    if request.settings:
        submission["overrides"] = parse_settings(request.settings)
    given = dict(_parse_pair(text, "--label") for text in request.labels)
    if labels := add_file_label(given, request.files):
        submission["labels"] = labels
    origin = SubmissionOrigin(
        paths={name: str(path) for name, (path, _) in read.items()},
        texts={name: content for name, (_, content) in read.items()},
    )
    return submission, origin


def add_file_label(labels: Mapping[str, str], files: Sequence[Path]) -> dict[str, str]:
    """Return labels with the first file's name as `file`, if it fits and `file` isn't set."""
    name = files[0].resolve().name if files and files[0] != Path("-") else ""
    return {**({FILE_LABEL: name} if LABEL.fullmatch(name) else {}), **labels}


def _fetch_kind(client: PlainClient, kind: str) -> Document:
    """Return the daemon's description of a kind.

    Raises: RequestError ``kind.unknown``, with the list of kinds.
    """
    from assayd.kinds.registry import format_unknown_kind_message

    try:
        found: Document = client.kind(kind)
    except NotFound as missing:
        known = [each["kind"] for each in client.kinds()["kinds"]]
        raise RequestError(
            "kind.unknown", format_unknown_kind_message(kind, known), field="kind"
        ) from missing
    return found


def submit_and_wait(
    client: PlainClient,
    submission: Mapping[str, object],
    *,
    show_progress: bool,
    origin: SubmissionOrigin = UNKNOWN,
) -> Document:
    """Submit code, wait for the verdict, and return the attempt. A keyboard interrupt cancels it."""
    try:
        attempt = client.submit(submission)
    except Refused as refusal:
        if refusal.field != "payload.code" or len(origin.paths) != 1:
            raise
        [path] = origin.paths.values()
        raise RequestError(refusal.code, f"{path}: {refusal.message}", field=refusal.field) from refusal
    try:
        with cancel_on_interrupt(client.cancel, attempt["id"]):
            if show_progress:
                follow_attempt(client, attempt, get_stderr())
            while attempt["state"] != "finished":
                attempt = client.attempt(attempt["id"], wait_s=WAIT_S)
    except DaemonUnreachable as error:
        message = (
            f"the daemon stopped responding; attempt {attempt['id']} was accepted, and runs again once the "
            f"daemon is back: assay show {attempt['id']}"
        )
        raise DaemonUnreachable("daemon.gone", message, retryable=True) from error
    return attempt


def read_files(paths: Sequence[Path]) -> dict[str, tuple[Path, bytes]]:
    """Return the path and the content of each file by its submitted name.

    A folder stands for all files in it, and `-` for standard input. Raises: RequestError ``file.unreadable``;
    ``file.twice``, if two files have the same name; ``file.link``, for a symbolic link in a folder;
    ``file.too_large``, if the files exceed `MAX_FILES_BYTES` bytes.
    """
    files: dict[str, tuple[Path, bytes]] = {}
    total = 0
    for name, path in _iter_files(paths):
        if name in files:
            raise RequestError("file.twice", f"two files are named {name}")
        files[name] = (path, _read_file(path))
        total += len(files[name][1])
        if total > MAX_FILES_BYTES:
            raise RequestError("file.too_large", f"the files exceed {MAX_FILES_BYTES >> 20} MiB in total")
    return files


def read_text_option(text: str) -> str:
    """Return the text of an option or, if the text begins with ``@``, the content of the named file."""
    if not text.startswith("@"):
        return text
    path = Path(text[1:])
    try:
        return _read_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError("file.unreadable", f"{path} isn't UTF-8 text") from error


def read_cases(path: Path | None) -> list[object]:
    """Return the cases in a file that contains a JSON array, or an empty sequence without a file."""
    if path is None:
        return []
    found = _read_json(path)
    if not isinstance(found, list) or not found:
        raise RequestError("malformed", f"{path}: cases must be a JSON array of at least one object")
    for number, case in enumerate(found, 1):
        if not isinstance(case, dict):
            raise RequestError("malformed", f"{path}: case {number} isn't a JSON object")
    return list(found)


def parse_object_option(text: str, option: str) -> dict[str, object]:
    """Return the JSON object in an option. Raises: RequestError ``malformed``, for any other text."""
    from assayd.documents import parse_json

    try:
        value = parse_json(text.encode())
    except RequestError as error:
        raise RequestError(error.code, f"{option}: {error.message}") from error
    if not isinstance(value, dict):
        raise RequestError("malformed", f"{option} must be a JSON object, not {text[:60]!r}")
    return {**value}


def parse_pair_options(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return the ``key=value`` pairs in an option. Raises: RequestError ``usage``, for any other text."""
    return dict(_parse_pair(text, option) for text in texts)


def list_case_paths(cases: Sequence[object]) -> tuple[str, ...]:
    """Return the distinct values of `path` in cases, in order."""
    paths = (case.get("path") for case in cases if isinstance(case, dict))
    return tuple(dict.fromkeys(path for path in paths if isinstance(path, str)))


def parse_settings(settings: Sequence[str], option: str = "--set") -> dict[str, object]:
    """Parse settings such as ``resources.timeout_s=5`` into a nested object.

    Commas separate the items of a list. Raises: RequestError ``usage``, if a setting has no value or
    contradicts an earlier one.
    """
    overrides: dict[str, object] = {}
    for text in settings:
        dotted, value = _parse_pair(text, option)
        *tables, key = dotted.split(".")
        place = overrides
        for table in tables:
            inner = place.setdefault(table, {})
            if not isinstance(inner, dict):
                raise RequestError("usage", f"{option} {dotted}: {table} already has a value")
            place = inner
        place[key] = _parse_value(value)
    return overrides


def _iter_files(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for path in paths:
        if path.is_dir():
            for inner in sorted(path.rglob("*")):
                if inner.is_symlink():  # a link may lead to any file, which would then be sent
                    raise RequestError("file.link", f"{inner} is a symbolic link; replace it with the file")
                if inner.is_file():
                    yield inner.relative_to(path).as_posix(), inner
        else:
            yield (STDIN if path == Path("-") else path.name), path


def _read_file(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read(MAX_FILES_BYTES + 1) if path == Path("-") else path.read_bytes()
    except OSError as error:
        raise RequestError("file.unreadable", f"{path}: {error.strerror}") from error


def read_input(path: Path | None) -> Mapping[str, object] | None:
    """Return the inputs in a file that contains a JSON object, or None without a file."""
    if path is None:
        return None
    value = _read_json(path)
    if not isinstance(value, dict):
        raise RequestError("malformed", f"{path}: the input isn't a JSON object")
    return {**value}


def _read_json(path: Path) -> object:
    from assayd.documents import parse_json

    content = _read_file(path)
    try:
        return parse_json(content)
    except RequestError as error:
        raise RequestError(error.code, f"{path}: {error.message}") from error


def _parse_value(text: str) -> object:
    try:
        value: object = json.loads(text, parse_constant=_reject_constant)
    except ValueError:
        if "," in text:
            return [_parse_value(item.strip()) for item in text.split(",") if item.strip()]
        return text
    return value


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} isn't valid JSON")


def _parse_pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise RequestError("usage", f"{option} must be key=value, not {text!r}")
    return key, value
