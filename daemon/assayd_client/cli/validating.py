"""`assay validate`, once: submit what the line says, wait, and show or write the report."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import RequestError
from assayd_client import Document, PlainClient, Target
from assayd_client.cli.exits import OF_VERDICT
from assayd_client.cli.kinds import ShownAttempt, form_of
from assayd_client.cli.origin import UNKNOWN, Origin
from assayd_client.cli.terminal import out, plain, print_json
from assayd_client.cli.validate import ValidateRequest, build_submission, run
from assayd_client.cli.written import Written

STDOUT = Path("-")
"""Stands for standard output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Where reports go; None for those that nobody wants."""

    sarif: Path | None = None
    junit: Path | None = None

    @property
    def take_stdout(self) -> bool:
        """Return whether one of them is written to standard output, which nothing else may be then."""
        return STDOUT in {self.sarif, self.junit}

    def require_one_on_stdout(self) -> None:
        """Raise RequestError ``usage`` when both are to be written to standard output."""
        if self.sarif == self.junit == STDOUT:
            raise RequestError("usage", "--sarif - and --junit - are two reports on one output; name a file")

    def write(self, client: PlainClient, attempt: Document, origin: Origin) -> None:
        """Write what is wanted. Raises: RequestError ``file.unwritable``; ClientError."""
        if self.sarif is None and self.junit is None:
            return
        from assayd_client.cli.report_files import junit, sarif

        if self.sarif is not None:
            rules = {rule["id"]: rule for rule in client.kind(attempt["kind"])["rules"]}
            put(self.sarif, json.dumps(sarif(attempt, origin, rules), indent=1) + "\n")
        if self.junit is not None:
            put(self.junit, junit(client, attempt))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is printed of the attempt, and which reports are written."""

    as_json: bool
    fields: str | None
    retry_context: bool
    form: str | None
    reports: ReportFiles

    @property
    def quiet(self) -> bool:
        """Return whether standard output is for a program."""
        return self.as_json or self.retry_context or self.form is not None or self.reports.take_stdout


def validate_once(
    daemon: Target, request: ValidateRequest, repair: str | None, shown: Shown, written: Written
) -> int:
    """Validate what the line says, show it, and return the exit code."""
    shown.reports.require_one_on_stdout()
    print_form = None if shown.form is None else form_of(request.kind, shown.form)
    submission, origin = build_submission(request)
    files = origin
    if repair is not None:
        submission["repair"] = {"provider": repair}
    with PlainClient(daemon) as client:
        attempt = run(client, submission, show_progress=sys.stderr.isatty() and not shown.quiet)
        if repair is not None and attempt["verdict"] == "failed":
            from assayd_client.cli.repair import follow_repairs

            file = next(iter(origin.paths.values())) if len(origin.paths) == 1 else None
            attempt = follow_repairs(client, attempt, show=not shown.quiet, file=file)
            origin = UNKNOWN  # it is another text by now
        written.write(client, attempt, submission, files)
        shown.reports.write(client, attempt, origin)
        if print_form is not None:
            print_form(ShownAttempt(client=client, attempt=attempt, as_json=shown.as_json))
    if shown.retry_context:
        _print_retry_context(attempt)
    elif print_form is None and (shown.as_json or not shown.reports.take_stdout):
        print_attempt(attempt, as_json=shown.as_json, fields=shown.fields, origin=origin)
    return OF_VERDICT[attempt["verdict"]]


def print_attempt(
    attempt: Document, *, as_json: bool, fields: str | None = None, origin: Origin = UNKNOWN
) -> None:
    """Print an attempt: for a person, or as JSON, all of it or some fields."""
    if as_json:
        from assayd_client.cli.fields import select

        print_json(attempt if fields is None else select(attempt, fields))
        return
    from assayd_client.cli.report import render

    screen = out()
    screen.lines(render(attempt, origin, width=screen.width))


def _print_retry_context(attempt: Document) -> None:
    told = (attempt["report"] or {}).get("retry_context")
    if told:
        print(plain(told) if sys.stdout.isatty() else told)


def put(path: Path, text: str) -> None:
    """Write a report, to standard output for ``-``. Raises: RequestError ``file.unwritable``."""
    if path == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError("file.unwritable", f"{path}: {error.strerror}") from error
