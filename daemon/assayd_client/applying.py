"""Applies an approved extractor to many paths, in concurrent attempts of a thousand paths each.

Results are returned in the order of the paths. Many paths share a process. If one of them terminates the
process, all paths of that process run again, each in a separate process.

    with PlainClient() as client:
        entry = client.library_entry("quarter", 3)
        for results in applied(client, entry, TreeWalk(Path("/srv/reports")).files()):
            ...
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event

from assayd.clock import UlidGenerator
from assayd.errors import RequestError
from assayd.model.text_limits import MAX_APPLIED_PATHS, SAMPLE_PATHS
from assayd_client.answers import Document
from assayd_client.blocking import PlainClient
from assayd_client.cli.submitting import RetryTimer
from assayd_client.errors import ClientError
from assayd_client.trees import FoundFile

AT_ONCE = 3
"""Maximum number of concurrent attempts."""
MAX_ATTEMPT_CHARS = 2**20
"""Maximum number of characters of all paths of one attempt."""
LABEL = "applied"
"""The label of the attempts, whose value is the entry as NAME/VERSION."""
_VERDICT_WAIT_S = 60
_UNFINISHED_STATUSES = {"error", "skipped"}
"""Statuses of cases whose process ended before the cases had a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathResult:
    """The result of an extractor for one path, which is a dict or an error."""

    path: str
    result: Document | None = None
    code: str | None = None
    message: str = ""
    line: int | None = None

    @property
    def reason(self) -> str | None:
        """Return the error code, message and line as one string, or None if the path succeeded."""
        if self.code is None:
            return None
        return f"{self.code}: {self.message}" + ("" if self.line is None else f" (line {self.line})")

    @property
    def submitted(self) -> bool:
        """Return whether the path was submitted.

        A folder, or a name that isn't text, can't be submitted.
        """
        return self.code is None or not self.code.startswith(("path.", "folder."))

    def document(self, entry: str) -> Document:
        """Return the result as a JSON object for one line of the output file."""
        shown = os.fsencode(self.path).decode("utf-8", "backslashreplace")
        exact = {} if shown == self.path else {"path_base64": b64encode(os.fsencode(self.path)).decode()}
        if self.code is None:
            return {"path": shown, **exact, "entry": entry, "result": self.result}
        error = {"code": self.code, "message": self.message, "line": self.line}
        return {"path": shown, **exact, "entry": entry, "error": error}


def parse_path_result(document: Document) -> PathResult:
    """Return the result from an object of `PathResult.document`.

    Raises: KeyError, TypeError or ValueError, if the object has another form.
    """
    path = os.fsdecode(b64decode(document["path_base64"])) if "path_base64" in document else document["path"]
    if "error" not in document:
        return PathResult(path=path, result=document["result"])
    return PathResult(path=path, **document["error"])


def applied(
    client: PlainClient, entry: Document, found: Iterable[FoundFile], *, at_once: int = AT_ONCE
) -> Iterator[list[PathResult]]:
    """Yield the results of an entry for all paths, in the order of the paths.

    A few attempts run concurrently. They are cancelled if the caller stops the iteration.

    Raises: RequestError ``extractor.kind``, if the entry isn't an extractor; ``extractor.refused``, if the
    policy refuses it; ClientError, if a request fails and retries don't help.
    """
    run = _ExtractorRun(client, entry)
    waiting: deque[Future[list[PathResult]]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for share in _split_paths(found):
                waiting.append(pool.submit(run.results, share))
                if len(waiting) > at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            run.stop()
            for future in waiting:
                future.cancel()


def _split_paths(found: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
    share: list[FoundFile] = []
    chars = 0
    for one in found:
        if len(share) == MAX_APPLIED_PATHS or chars > MAX_ATTEMPT_CHARS:
            yield share
            share, chars = [], 0
        share.append(one)
        chars += len(one.path)
    if share:
        yield share


class _ExtractorRun:
    """A run of an extractor, which submits its attempts from several threads."""

    def __init__(self, client: PlainClient, entry: Document) -> None:
        submission = entry["submission"]
        if entry["kind"] != "extractor":
            message = f"{entry['name']}@{entry['version']} is of the kind {entry['kind']}, not an extractor"
            raise RequestError("extractor.kind", message)
        self._client = client
        self._entry = entry
        self._code = submission["payload"]["code"]
        self._envelope = {
            name: submission[name] for name in ("kind", "policy", "overrides") if submission.get(name)
        }
        self._ids = UlidGenerator()
        self._running: set[str] = set()
        self._stopped = Event()

    def stop(self) -> None:
        """Cancel all running attempts and prevent further submissions."""
        self._stopped.set()
        for attempt_id in tuple(self._running):
            with suppress(ClientError):  # it has ended, or the daemon is unavailable
                self._client.cancel(attempt_id)

    def results(self, share: Sequence[FoundFile]) -> list[PathResult]:
        """Return the results of a group of paths, in the order of the paths."""
        known = {one.path: PathResult(path=one.path, code=one.code, message=one.message) for one in share}
        paths = [one.path for one in share if one.code is None]
        if paths:
            known.update(self._run_cases(paths, "paths"))
            again = [path for path in paths if known[path].code in _UNFINISHED_STATUSES]
            for start in range(0, len(again), SAMPLE_PATHS):
                known.update(self._run_cases(again[start : start + SAMPLE_PATHS], "sample_paths"))
        return [known[one.path] for one in share]

    def _run_cases(self, paths: Sequence[str], field: str) -> dict[str, PathResult]:
        attempt = self._submit_and_wait(paths, field)
        report = attempt["report"] or {}
        ran = report.get("runtime_results")
        if ran is None and attempt["verdict"] == "failed":
            entry, why = self._entry, next(iter(report["findings"]), {"message": "see the attempt"})
            message = f"the policy refuses {entry['name']}@{entry['version']} now: {why['message']}"
            raise RequestError("extractor.refused", f"{message} (attempt {attempt['id']})")
        if ran is None:
            why = attempt["error"] or {"code": attempt["verdict"], "message": "the attempt has no results"}
            return {path: PathResult(path=path, code=why["code"], message=why["message"]) for path in paths}
        final = field == "sample_paths"
        return {case["name"]: _build_path_result(case, final=final) for case in ran["cases"]}

    def _submit_and_wait(self, paths: Sequence[str], field: str) -> Document:
        """Submit paths and return the finished attempt, waiting while the daemon is unavailable or full."""
        labels = {LABEL: f"{self._entry['name']}/{self._entry['version']}"}
        document = {**self._envelope, "payload": {"code": self._code, field: list(paths)}, "labels": labels}
        attempt_id, patience, attempt = self._ids.new(), RetryTimer(), None
        self._running.add(attempt_id)
        try:
            while not self._stopped.is_set():
                try:
                    # Submitting again doesn't wait for an attempt that exists.
                    if attempt is None:
                        attempt = self._client.submit(document, wait_s=_VERDICT_WAIT_S, attempt_id=attempt_id)
                    else:
                        attempt = self._client.attempt(attempt_id, wait_s=_VERDICT_WAIT_S)
                except ClientError as problem:
                    patience.wait(problem)
                    continue
                patience.answered()
                if attempt["state"] == "finished":
                    return attempt
        finally:
            self._running.discard(attempt_id)
        return {"id": attempt_id, "verdict": "cancelled", "report": None, "error": None}


def _build_path_result(case: Document, *, final: bool) -> PathResult:
    if case["status"] == "passed":
        return PathResult(path=case["name"], result=case["result"])
    if case["status"] in _UNFINISHED_STATUSES and not final:
        code = case["status"]
    elif case["cause"] == "completed":
        code = case["error_type"] or "result.not_dict"
    else:
        code = case["error_type"] or case["cause"] or case["status"]
    return PathResult(path=case["name"], code=code, message=case["message"] or "", line=case["line"])
