"""Implements `assay validate`, which submits files, waits, and shows or writes the report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from assayd.errors import AssaydError, RequestError
from assayd_client import Document, PlainClient, Target
from assayd_client.cli.kinds import AttemptView, get_form_printer
from assayd_client.cli.options import (
    EXIT_CODE_BY_VERDICT,
    VALIDATED,
    Fields,
    Json,
    Junit,
    exit_code,
    get_selected_daemon,
)
from assayd_client.cli.report import UNKNOWN, SubmissionOrigin
from assayd_client.cli.submitting import (
    SamplePath,
    SamplePaths,
    SampleTree,
    ValidateRequest,
    build_submission,
    collect_sample_paths,
    submit_and_wait,
)
from assayd_client.cli.terminal import get_stderr, plain, print_json
from assayd_client.cli.terminal import get_stdout as screen_of_results


def select_fields(document: Document, fields: str) -> Document:
    """Return a document with only the fields whose dotted, comma-separated paths are given.

    A path through a list applies to each element of the list. A null in the path of a field stays null.

    Raises: RequestError ``usage``, with the name of the unknown field.
    """
    found: Document = {}
    for field in fields.split(","):
        path = field.strip().split(".")
        _merge_selections(found, _select_path(document, path, field.strip()))
    return found


def _select_path(value: object, path: list[str], field: str) -> object:
    if not path or value is None:
        return value
    if isinstance(value, list):
        return [_select_path(each, path, field) for each in value]
    name, *rest = path
    if not isinstance(value, dict) or name not in value:
        has = f"{', '.join(value)}" if isinstance(value, dict) else "no fields"
        raise RequestError("usage", f"--fields: {field!r} doesn't exist; {name!r} has {has}")
    return {name: _select_path(value[name], rest, field)}


def _merge_selections(into: object, more: object) -> object:
    """Merge a selection of a document into another selection, and return the result."""
    if isinstance(into, dict) and isinstance(more, dict):
        for name, value in more.items():
            into[name] = _merge_selections(into[name], value) if name in into else value
        return into
    if isinstance(into, list) and isinstance(more, list):
        return [_merge_selections(a, b) for a, b in zip(into, more, strict=True)]
    return into


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDestination:
    """The destination to which validated code is written.

    Attributes:
        out: a file, or a folder for several files; None if the code isn't written.
        in_place: whether changes of a repair are written to the submitted files.
    """

    out: Path | None = None
    in_place: bool = False

    def require_compatible_options(self, repair: str | None, files: Sequence[Path]) -> None:
        """Raise RequestError ``usage`` if options conflict.

        This check precedes the submission.
        """
        if self.in_place and repair is None:
            raise RequestError(
                "usage", "--in-place needs --repair; to write the submitted code, use --out FILE"
            )
        if self.in_place and Path("-") in files:
            raise RequestError("usage", "--in-place can't write to standard input; use --out FILE")

    def write(
        self, client: PlainClient, attempt: Document, submission: Mapping[str, Any], origin: SubmissionOrigin
    ) -> None:
        """Write the code of a validated attempt, or do nothing for any other verdict.

        Raises: RequestError ``file.unwritable``, or ``usage`` if no file contains the code.
        """
        if attempt["verdict"] != "validated" or (self.out is None and not self.in_place):
            return
        from assayd_client.cli.texts import get_submission_texts, write_texts

        texts = get_submission_texts(AttemptView(client=client, attempt=attempt).submission())
        if self.out is not None:
            write_texts(texts, self.out)
            _print_written_path(self.out)
        if self.in_place:
            before = get_submission_texts(dict(submission))
            changed = {name: text for name, text in texts.items() if before.get(name) != text}
            for path, text in map_texts_by_path(changed, origin).items():
                write_texts({"": text}, path)
                _print_written_path(path)


def print_code(client: PlainClient, attempt: Document) -> None:
    """Print the texts of an attempt's submission, with control characters escaped on a terminal."""
    from assayd_client.cli.texts import get_submission_texts

    texts = get_submission_texts(AttemptView(client=client, attempt=attempt).submission())
    if not texts:
        raise RequestError(
            "usage", f"{attempt['id']} has no text to show; get its files with `assay artifacts`"
        )
    for name, text in texts.items():
        if name:
            print(f"==> {plain(name)} <==")
        sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
        if not text.endswith("\n"):
            print()


def map_texts_by_path(texts: Mapping[str, str], origin: SubmissionOrigin) -> dict[Path, str]:
    """Return the texts of a submission, keyed by the paths of their files."""
    if set(texts) == {""} and len(origin.paths) == 1:
        return {Path(next(iter(origin.paths.values()))): texts[""]}
    unknown = [name for name in texts if name not in origin.paths]
    if unknown:
        message = f"--in-place: {unknown[0] or 'the code'} isn't among the named files; use --out DIR"
        raise RequestError("usage", message)
    return {Path(origin.paths[name]): text for name, text in texts.items()}


def _print_written_path(path: Path) -> None:
    print(f"assay: the validated code is in {plain(str(path))}", file=sys.stderr)


POLL_INTERVAL_S = 0.25
CLEAR_SCREEN = "\x1b[H\x1b[2J\x1b[3J"

Signature = tuple[tuple[str, int, int, int], ...]


def watch_files(
    validate: Callable[[], int],
    paths: Sequence[Path],
    *,
    clear: bool,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Validate now and after each change of the files, and return the last exit code.

    An interrupt ends the loop. Raises: RequestError ``usage``, if nothing can be watched.
    """
    if not paths or Path("-") in paths:
        raise RequestError("usage", "--watch requires files or folders; standard input can't be watched")
    code, seen = VALIDATED, None
    try:
        while True:
            now = compute_files_signature(paths)
            if now in {seen, ()}:  # unchanged, or missing for a moment while an editor saves
                wait(POLL_INTERVAL_S)
                continue
            seen = now
            code = _clear_and_validate(validate, clear=clear)
            if clear:
                get_stderr().print(
                    f"{time.strftime('%H:%M:%S')}, waiting for the next save; press Ctrl+C to stop"
                )
    except KeyboardInterrupt:
        return code


def compute_files_signature(paths: Sequence[Path]) -> Signature:
    """Return a fingerprint of the files, or an empty tuple if any of the files doesn't exist."""
    try:
        return tuple(sorted(_iter_file_states(paths)))
    except FileNotFoundError:
        return ()


def _iter_file_states(paths: Sequence[Path]) -> Iterator[tuple[str, int, int, int]]:
    for path in paths:
        for each in sorted(path.rglob("*")) if path.is_dir() else (path,):
            state = each.stat()
            yield str(each), state.st_mtime_ns, state.st_size, state.st_ino


def _clear_and_validate(validate: Callable[[], int], *, clear: bool) -> int:
    """Validate the files once, and return the exit code.

    Errors in the submission are reported without ending the loop, because the next save may correct them.
    """
    if clear:
        sys.stdout.write(CLEAR_SCREEN)
        sys.stdout.flush()
    try:
        code = validate()
    except AssaydError as error:
        print(f"assay: {plain(error.message)}", file=sys.stderr)
        code = exit_code(error)
    return code


STDOUT = Path("-")
"""The path that represents standard output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """The destinations of reports, each of which is None if the report wasn't requested."""

    sarif: Path | None = None
    junit: Path | None = None

    @property
    def uses_stdout(self) -> bool:
        """Return whether a report uses standard output, which must then not contain other text."""
        return STDOUT in {self.sarif, self.junit}

    def require_one_on_stdout(self) -> None:
        """Raise RequestError ``usage`` if both reports are written to standard output."""
        if self.sarif == self.junit == STDOUT:
            raise RequestError(
                "usage", "--sarif - and --junit - both write to standard output; name a file for one of them"
            )

    def write(self, client: PlainClient, attempt: Document, origin: SubmissionOrigin) -> None:
        """Write the requested files. Raises: RequestError ``file.unwritable``; ClientError."""
        if self.sarif is None and self.junit is None:
            return
        from assayd_client.cli.reports import build_sarif, render_junit

        if self.sarif is not None:
            rules = {rule["id"]: rule for rule in client.kind(attempt["kind"])["rules"]}
            write_report(self.sarif, json.dumps(build_sarif(attempt, origin, rules), indent=1) + "\n")
        if self.junit is not None:
            write_report(self.junit, render_junit(client, attempt))


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayOptions:
    """The output options of a command, which determine the attempt's format and the reports."""

    as_json: bool
    fields: str | None
    retry_context: bool
    form: str | None
    reports: ReportFiles

    @property
    def is_quiet(self) -> bool:
        """Return whether standard output is meant for a program, so that other text must not be printed."""
        return self.as_json or self.retry_context or self.form is not None or self.reports.uses_stdout


KindName = Annotated[str, typer.Argument(metavar="KIND", help="Kind of the submission, e.g. extractor.")]
Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILE]…", help="Files or folders to submit; - is standard input."),
]
Input = Annotated[
    Path | None,
    typer.Option(
        "--input", metavar="F.json", help="Read the inputs from this file, which contains a JSON object."
    ),
]
Policy = Annotated[str | None, typer.Option(metavar="NAME", help="Profile. Default: the kind's profile.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B=V",
        help="Tighten a limit, e.g. resources.timeout_s=5; separate list values with commas.",
    ),
]
Labels = Annotated[list[str] | None, typer.Option(metavar="K=V", help="Label the attempt.")]
KindOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="K=V", help="Set an option of the kind; `assay kinds KIND` lists them."),
]
SampleRows = Annotated[
    bool,
    typer.Option(
        "--sample-rows", help="Show the repair provider three rows from each table in the database file."
    ),
]
Cases = Annotated[
    Path | None,
    typer.Option(
        metavar="F.json", help="File with test cases (inputs and expected results), as a JSON array."
    ),
]
Tests = Annotated[
    Path | None,
    typer.Option(metavar="F.py", help="Python file with the hidden tests that score a solution."),
]
EntryPoint = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Function or class of the solution that the tests call."),
]
Intent = Annotated[
    str | None,
    typer.Option(metavar="TEXT|@FILE", help="Purpose of the code in natural language, used for repairs."),
]
Repair = Annotated[
    str | None,
    typer.Option(
        metavar="PROVIDER", help="Repair the submission if it fails, e.g. with the provider `rules`."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the validated code to this file, or to this folder if there are several files.",
    ),
]
InPlace = Annotated[
    bool,
    typer.Option("--in-place", help="With --repair: write the repaired code back to the submitted files."),
]
Webhook = Annotated[str | None, typer.Option(metavar="URL", help="Send the verdict to this URL.")]
RetryContext = Annotated[
    bool,
    typer.Option(
        "--retry-context",
        help="Print only the retry context (text for a model's next attempt). "
        "Prints nothing if the submission is validated without quality findings.",
    ),
]
Sarif = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write findings as SARIF, with safe edits as fixes; - is standard output."
    ),
]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Validate again whenever the files are saved, until interrupted."),
]
FormName = Annotated[
    str | None, typer.Option(metavar="NAME", help="Print the report in this kind-specific form.")
]
Yaml = Annotated[bool, typer.Option("--yaml", help="Print YAML (same as --form yaml).")]


def validate(  # noqa: PLR0913, PLR0917  (one parameter per option)
    context: typer.Context,
    kind: KindName,
    files: Files = None,
    input_file: Input = None,
    sample_path: SamplePath = None,
    listed_paths: SamplePaths = None,
    sample_tree: SampleTree = None,
    policy: Policy = None,
    setting: Settings = None,
    label: Labels = None,
    option: KindOptions = None,
    sample_rows: SampleRows = False,
    cases: Cases = None,
    tests: Tests = None,
    entry: EntryPoint = None,
    intent: Intent = None,
    repair: Repair = None,
    out: Out = None,
    in_place: InPlace = False,
    webhook: Webhook = None,
    as_json: Json = False,
    fields: Fields = None,
    retry_context: RetryContext = False,
    sarif: Sarif = None,
    junit: Junit = None,
    watch: Watch = False,
    form: FormName = None,
    as_yaml: Yaml = False,
) -> None:
    """Validate files and show the report."""
    request = ValidateRequest(
        kind=kind,
        files=files or (),
        input=input_file,
        sample_paths=collect_sample_paths(sample_path, listed_paths, sample_tree, files or ()),
        policy=policy,
        settings=setting or (),
        labels=label or (),
        options=tuple(_iter_kind_options(option or (), sample_rows=sample_rows, tests=tests, entry=entry)),
        cases=cases,
        intent=intent,
        webhook=webhook,
    )
    shown = DisplayOptions(
        as_json=as_json or fields is not None,
        fields=fields,
        retry_context=retry_context,
        form="yaml" if as_yaml else form,
        reports=ReportFiles(sarif=sarif, junit=junit),
    )
    written = CodeDestination(out=out, in_place=in_place)
    written.require_compatible_options(repair, request.files)
    once = partial(validate_once, get_selected_daemon(context), request, repair, shown, written)
    watched = [*request.files, *(path for path in (input_file, cases, tests) if path is not None)]
    raise typer.Exit(watch_files(once, watched, clear=sys.stdout.isatty()) if watch else once())


def _iter_kind_options(
    options: Sequence[str], *, sample_rows: bool, tests: Path | None, entry: str | None
) -> Iterator[str]:
    """Yield a kind's ``key=value`` options, including those from dedicated command-line options."""
    yield from options
    if sample_rows:
        yield "sample_rows=true"
    if tests is not None:
        from assayd.ports.command_line import text_of  # imports more than most commands need

        yield f"tests={text_of(tests.name, tests.read_bytes())}"
    if entry is not None:
        yield f"entry={entry}"


def validate_once(
    daemon: Target,
    request: ValidateRequest,
    repair: str | None,
    shown: DisplayOptions,
    written: CodeDestination,
) -> int:
    """Validate the files of the command line, print the result, and return the exit code."""
    shown.reports.require_one_on_stdout()
    print_form = None if shown.form is None else get_form_printer(request.kind, shown.form)
    with PlainClient(daemon) as client:
        submission, origin = build_submission(request, client)
        files = origin
        if repair is not None:
            submission["repair"] = {"provider": repair}
        attempt = submit_and_wait(
            client, submission, show_progress=sys.stderr.isatty() and not shown.is_quiet, origin=origin
        )
        if repair is not None and attempt["verdict"] == "failed":
            from assayd_client.cli.repair import follow_repairs

            file = next(iter(origin.paths.values())) if len(origin.paths) == 1 else None
            attempt = follow_repairs(client, attempt, show=not shown.is_quiet, file=file)
            origin = UNKNOWN  # the file has changed since
        written.write(client, attempt, submission, files)
        shown.reports.write(client, attempt, origin)
        if print_form is not None:
            print_form(AttemptView(client=client, attempt=attempt, as_json=shown.as_json))
    if shown.retry_context:
        _print_retry_context(attempt)
    elif print_form is None and (shown.as_json or not shown.reports.uses_stdout):
        print_attempt(attempt, as_json=shown.as_json, fields=shown.fields, origin=origin)
    return EXIT_CODE_BY_VERDICT[attempt["verdict"]]


def print_attempt(
    attempt: Document, *, as_json: bool, fields: str | None = None, origin: SubmissionOrigin = UNKNOWN
) -> None:
    """Print an attempt as text, or as JSON with all or with selected fields."""
    if as_json:
        print_json(attempt if fields is None else select_fields(attempt, fields))
        return
    from assayd_client.cli.report import iter_report_lines

    screen = screen_of_results()
    screen.lines(iter_report_lines(attempt, origin, width=screen.width))


def _print_retry_context(attempt: Document) -> None:
    told = (attempt["report"] or {}).get("retry_context")
    if told:
        print(plain(told) if sys.stdout.isatty() else told)


def write_report(path: Path, text: str) -> None:
    """Write a report to a file or, for ``-``, to standard output.

    Raises: RequestError ``file.unwritable``, if the file can't be written.
    """
    if path == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError("file.unwritable", f"{path}: {error.strerror}") from error
