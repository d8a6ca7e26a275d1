"""Implements `assay extractor`, which applies an approved extractor to a file tree and measures drift.

The output file has one complete JSON line per path, so that a later run can continue it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import typer

from assayd.errors import RequestError
from assayd_client import Document, PlainClient
from assayd_client.applying import PathResult, parse_path_result
from assayd_client.cli.library import Entry, find_entry
from assayd_client.cli.options import FAILED, INTERRUPTED, Json, open_client
from assayd_client.cli.terminal import (
    StyledLine,
    build_line,
    format_count,
    get_stdout,
    plain,
    print_json,
    shorten,
)
from assayd_client.trees import ResultTally, TreeWalk, compare_tallies

STDOUT = Path("-")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_RESUME_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW


class ResultsFile:
    """A writer of results as complete lines to a file or to standard output.

    If `path` is None, nothing is written.
    """

    def __init__(self, path: Path | None, entry: str, tree: Path, *, resume: bool) -> None:
        self._path = path
        self._entry = entry
        self._tree = tree
        self._resume = resume
        self._descriptor = -1

    @property
    def is_file(self) -> bool:
        """Return whether the output is a file that a later run can continue."""
        return self._descriptor >= 0

    def __enter__(self) -> Self:
        if self._path is None or self._path == STDOUT:
            return self
        if self._path.resolve().is_relative_to(self._tree.resolve()):
            message = f"{self._path} is inside the input tree {self._tree}; name a file outside it"
            raise RequestError("usage", message)
        try:
            self._descriptor = os.open(
                self._path, (_RESUME_FLAGS if self._resume else _NEW) | os.O_CLOEXEC, 0o666
            )
        except FileExistsError:
            message = f"{self._path} exists; continue it with --resume, or name another file"
            raise RequestError("file.exists", message) from None
        except OSError as error:
            raise RequestError("file.unwritable", f"{self._path}: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self._close_descriptor()
            raise RequestError("file.unwritable", f"{self._path} isn't a regular file")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, tally: ResultTally) -> str | None:
        """Count the lines of an earlier run, remove an incomplete last line, and return the last path.

        Return None if no run is resumed or the file is empty. Raises: RequestError ``file.unreadable``, if
        the file contains lines of another run.
        """
        if not (self.is_file and self._resume):
            return None
        end, last = 0, None
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            for number, text in enumerate(file, 1):
                if not text.endswith(b"\n"):
                    break
                one = self._parse_earlier_line(number, text)
                tally.add(one.path, one.result, one.reason, submitted=one.submitted)
                end, last = end + len(text), one.path
        os.ftruncate(self._descriptor, end)
        os.lseek(self._descriptor, end, os.SEEK_SET)
        return last

    def _parse_earlier_line(self, number: int, text: bytes) -> PathResult:
        try:
            document = json.loads(text)
            one, entry = parse_path_result(document), document["entry"]
            below = Path(one.path).is_relative_to(self._tree)
        except (ValueError, KeyError, TypeError) as problem:
            message = f"{self._path}, line {number}: not a result of `assay extractor apply`"
            raise RequestError("file.unreadable", message) from problem
        if entry != self._entry or not below:
            what = f"a result of {entry}" if entry != self._entry else f"a path outside {self._tree}"
            message = f"{self._path}, line {number}: {what}; name the file of the same run, or another file"
            raise RequestError("file.unreadable", message)
        return one

    def write(self, results: Iterable[PathResult]) -> None:
        """Write results as complete lines. Raises: RequestError ``file.unwritable``."""
        if self._path is None:
            return
        # Paths and results of the code could otherwise control the terminal.
        escaped = self._path == STDOUT and sys.stdout.isatty()
        lines = [json.dumps(one.document(self._entry), ensure_ascii=escaped) + "\n" for one in results]
        if self._path == STDOUT:
            sys.stdout.write("".join(lines))
            sys.stdout.flush()
            return
        content, began = "".join(lines).encode(), os.lseek(self._descriptor, 0, os.SEEK_CUR)
        done = 0
        try:
            while done < len(content):
                done += os.write(self._descriptor, content[done:])
        except BaseException as problem:
            # If the file ends with half a line, keep the complete lines.
            os.ftruncate(self._descriptor, began + content.rfind(b"\n", 0, done) + 1)
            if isinstance(problem, OSError):
                raise RequestError("file.unwritable", f"{self._path}: {problem.strerror}") from problem
            raise


extractor_app = typer.Typer(
    help="Apply an approved extractor to a file tree, or measure its drift.", no_args_is_help=True
)

Tree = Annotated[
    Path, typer.Argument(metavar="TREE", help="Folder with the files. Symbolic links aren't followed.")
]
MOST_SHAPES = 10
MAX_SHOWN_REASONS = 3
MAX_REPAIR_PATHS = 50
"""Maximum number of paths of changed shapes to try in a repair."""


class _ProgressLine:
    """A display of the number of completed paths on standard error, if this is a terminal."""

    def __init__(self) -> None:
        self.began = self._shown = time.monotonic()
        self._visible = sys.stderr.isatty()

    def print_progress(self, tally: ResultTally, *, last: bool = False) -> None:
        now = time.monotonic()
        if self._visible and (last or now - self._shown > 0.5):
            self._shown = now
            rate = tally.paths / max(now - self.began, 0.001)
            text = f"{tally.paths:,} paths, {tally.failed:,} failed, {rate:,.0f} paths/s"
            print(f"\r\x1b[K{'' if last else text}", end="", file=sys.stderr, flush=True)


@extractor_app.command("apply")
def apply_to_tree(
    context: typer.Context,
    entry: Entry,
    tree: Tree,
    jsonl: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write one JSON line per path to this file; - is standard output."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue OUT after its last path, with the same entry.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an approved extractor or approved rules on the path of every file in a tree.

    Exits with status 0 if every path returned a dict, and with status 1 if a path failed.
    """
    _require_folder(tree)
    if resume and (jsonl is None or jsonl == STDOUT):
        raise RequestError("usage", "--resume continues an output file; name it with --jsonl OUT")
    if as_json and jsonl == STDOUT:
        raise RequestError("usage", "--json and --jsonl - both write to standard output; choose one")
    with open_client(context) as client:
        found, tally = find_entry(client, entry), ResultTally()
        with ResultsFile(jsonl, _format_versioned_name(found), tree, resume=resume) as results:
            walk = TreeWalk(tree)
            try:
                _apply_entry(client, found, walk, tally, results)
            except KeyboardInterrupt:
                hint = f"; to continue, pass --resume --jsonl {plain(str(jsonl))}" if results.is_file else ""
                print(f"assay: interrupted after {format_count(tally.paths, 'path')}{hint}", file=sys.stderr)
                raise typer.Exit(INTERRUPTED) from None
    summary = {
        "entry": _format_versioned_name(found),
        "tree": str(tree),
        "links": walk.links,
        **tally.document(),
    }
    if as_json:
        print_json(summary)
    elif jsonl != STDOUT:
        get_stdout().lines(_iter_summary_lines(summary))
    if tally.failed:
        raise typer.Exit(FAILED)


@extractor_app.command("drift")
def drift(
    context: typer.Context,
    entry: Entry,
    tree: Tree,
    threshold: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Exit with status 1 if the drift exceeds this value (between 0 and 1).",
        ),
    ] = 0.05,
    repair: Annotated[
        str | None,
        typer.Option(
            metavar="P", help="If the drift exceeds the threshold, repair the extractor with this provider."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare the paths that match now with the sample paths from the approval.

    Exits with status 1 if the share of paths that no longer match, or that lack a field found at
    approval, exceeds the threshold.
    """
    _require_folder(tree)
    with open_client(context) as client:
        found, now = find_entry(client, entry), ResultTally()
        cases = _get_approved_cases(client, found)
        before = ResultTally()
        for case in cases:
            before.add(case["name"], case["result"])
        _apply_entry(client, found, TreeWalk(tree), now, ResultsFile(None, "", tree, resume=False))
        change = {
            "entry": _format_versioned_name(found),
            "tree": str(tree),
            **compare_tallies(before, now),
            "threshold": threshold,
        }
        drifted = change["drift"] > threshold
        if repair is not None and drifted and any(one["unmatched"] for one in change["lost_shapes"]):
            change["repair"] = _begin_repair(client, found, cases, change, repair)
    if as_json:
        print_json(change)
    else:
        get_stdout().lines(_iter_drift_lines(change, entry, tree))
    if drifted:
        raise typer.Exit(FAILED)


def _apply_entry(
    client: PlainClient, entry: Document, walk: TreeWalk, tally: ResultTally, results: ResultsFile
) -> None:
    """Apply an entry to the files of a walk, and both count and write the results."""
    from assayd_client.applying import applied

    progress = _ProgressLine()
    for share in applied(client, entry, walk.files(results.read(tally))):
        results.write(share)
        for one in share:
            tally.add(one.path, one.result, one.reason, submitted=one.submitted)
        progress.print_progress(tally)
    progress.print_progress(tally, last=True)
    if not tally.paths:
        raise RequestError("usage", f"{walk.tree} contains no files; name another folder")


def _require_folder(tree: Path) -> None:
    if not tree.is_dir():
        fault = "not a folder" if tree.exists() else "no such folder"
        raise RequestError("usage", f"{tree}: {fault}")


def _to_displayable_line(path: str) -> str:
    """Return a path as one line that is safe to display."""
    return plain(os.fsencode(path).decode("utf-8", "backslashreplace").replace("\n", "\\n"))


def _format_versioned_name(entry: Document) -> str:
    return f"{entry['name']}@{entry['version']}"


def _get_approved_cases(client: PlainClient, entry: Document) -> list[Document]:
    """Return the cases of the sample paths with which an entry was approved.

    Raises: RequestError ``extractor.kind``, if the entry isn't an extractor; ``extractor.samples``, if it
    has no sample paths.
    """
    if entry["kind"] != "extractor":
        raise RequestError(
            "extractor.kind",
            f"{_format_versioned_name(entry)} is of the kind {entry['kind']}, not an extractor",
        )
    report = client.attempt(entry["attempt_id"])["report"] or {}
    number = len(entry["submission"]["payload"].get("sample_paths", ()))
    cases: list[Document] = ((report.get("runtime_results") or {}).get("cases") or [])[:number]
    if not cases:
        message = (
            f"{_format_versioned_name(entry)} was approved without sample paths: approve a version with some"
        )
        raise RequestError("extractor.samples", message)
    return cases


def _begin_repair(
    client: PlainClient, entry: Document, cases: list[Document], change: Document, provider: str
) -> Document:
    """Submit the extractor with the unmatched paths and the approved cases, and request a repair.

    Returns the attempt's id and verdict, and the unmatched paths.
    """
    submission = entry["submission"]
    shapes = [one["unmatched"] for one in change["lost_shapes"]]
    paths = list(dict.fromkeys(path for some in shapes for path in some))[:MAX_REPAIR_PATHS]
    kept = [case for case in cases if case["result"]]
    payload = {
        "code": submission["payload"]["code"],
        "sample_paths": paths,
        "cases": [
            {"name": f"approved {number}", "path": case["name"], "expected": case["result"]}
            for number, case in enumerate(kept, 1)
        ],
    }
    document = {
        **{
            name: submission[name]
            for name in ("kind", "policy", "overrides", "intent")
            if submission.get(name)
        },
        "payload": payload,
        "repair": {"provider": provider},
    }
    attempt = client.submit(document, wait_s=60)
    return {"attempt_id": attempt["id"], "verdict": attempt["verdict"], "sample_paths": paths}


def _iter_summary_lines(summary: Document) -> Iterator[StyledLine]:
    yield build_line(
        (summary["entry"], "bold"), f" on {plain(summary['tree'])}: {format_count(summary['paths'], 'path')}"
    )
    yield build_line(f"{summary['matched']:>9,} with fields")
    yield build_line(f"{summary['empty']:>9,} without fields")
    yield build_line(f"{summary['failed']:>9,} failed")
    if summary["links"]:
        yield build_line((f"{summary['links']:>9,} skipped (symbolic links)", "dim"))
    yield from _iter_shape_lines("Paths without fields, by shape", summary["shapes"])


def _iter_shape_lines(head: str, shapes: list[Document]) -> Iterator[StyledLine]:
    wanted = [one for one in shapes if one["matched"] < one["paths"]]
    if not wanted:
        return
    yield build_line("")
    yield build_line((head, "bold"))
    for one in wanted[:MOST_SHAPES]:
        example = (one["unmatched"] or [one["example"]])[0]
        yield build_line(
            f"  {one['paths'] - one['matched']:,} of {one['paths']:,} like {_to_displayable_line(example)}",
            hang=4,
        )
        for reason, number in list(one["reasons"].items())[:MAX_SHOWN_REASONS]:
            yield build_line(f"{number:>9,} {shorten(plain(reason), 200)}", hang=10)
    if len(wanted) > MOST_SHAPES:
        yield build_line((f"  … and {format_count(len(wanted) - MOST_SHAPES, 'more shape')}", "dim"))


def _iter_drift_lines(change: Document, entry: str, tree: Path) -> Iterator[StyledLine]:
    yield build_line(
        (change["entry"], "bold"), f" on {plain(change['tree'])}: {format_count(change['paths'], 'path')}"
    )
    yield build_line(
        f"Matched: {change['approved_matched']:,} of "
        f"{format_count(change['approved_paths'], 'path')} at approval, "
        f"{change['matched']:,} of {change['paths']:,} now"
    )
    if change["new_shapes"]:
        yield build_line("")
        yield build_line((f"New shapes ({len(change['new_shapes'])})", "bold"))
        for one in change["new_shapes"][:MOST_SHAPES]:
            yield build_line(
                f"  {one['matched']:,} of {one['paths']:,} matched like "
                f"{_to_displayable_line(one['example'])}",
                hang=4,
            )
    if change["emptied_fields"]:
        yield build_line("")
        yield build_line(("Fields that became empty", "bold"))
        for one in change["emptied_fields"][:MOST_SHAPES]:
            yield build_line(
                f"  {plain(one['field'])}: in {one['before']:.1%} at approval, {one['now']:.1%} now"
            )
    yield from _iter_shape_lines("Paths that don't match, by shape", change["lost_shapes"])
    yield build_line("")
    exceeded = change["drift"] > change["threshold"]
    verb = "exceeds" if exceeded else "is within"
    yield build_line((f"Drift {change['drift']:.1%} {verb} the threshold {change['threshold']:.1%}", "bold"))
    if "repair" in change:
        begun = change["repair"]
        yield build_line(f"Repair started: assay show {begun['attempt_id']}")
    elif exceeded:
        yield build_line(f"Repair: assay extractor drift {plain(entry)} {plain(str(tree))} --repair PROVIDER")
