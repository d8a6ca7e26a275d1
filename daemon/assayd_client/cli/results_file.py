"""Writes the output file of `assay extractor apply`, with one complete JSON line per path.

A later run can continue the file.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from assayd.errors import RequestError
from assayd_client.applying import Applied, read_applied
from assayd_client.shapes import Tally

STDOUT = Path("-")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_KEPT = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW


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
            self._descriptor = os.open(self._path, (_KEPT if self._resume else _NEW) | os.O_CLOEXEC, 0o666)
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

    def read(self, tally: Tally) -> str | None:
        """Count the lines of an earlier run, remove an incomplete last line, and return the last path.

        Raises: RequestError ``file.unreadable``, if the file contains lines of another run.
        """
        if not (self.is_file and self._resume):
            return None
        end, last = 0, None
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            for number, text in enumerate(file, 1):
                if not text.endswith(b"\n"):
                    break
                one = self._parse_earlier(number, text)
                tally.add(one.path, one.result, one.reason, submitted=one.submitted)
                end, last = end + len(text), one.path
        os.ftruncate(self._descriptor, end)
        os.lseek(self._descriptor, end, os.SEEK_SET)
        return last

    def _parse_earlier(self, number: int, text: bytes) -> Applied:
        try:
            document = json.loads(text)
            one, entry = read_applied(document), document["entry"]
            below = Path(one.path).is_relative_to(self._tree)
        except (ValueError, KeyError, TypeError) as problem:
            message = f"{self._path}, line {number}: not a result of `assay extractor apply`"
            raise RequestError("file.unreadable", message) from problem
        if entry != self._entry or not below:
            what = f"a result of {entry}" if entry != self._entry else f"a path outside {self._tree}"
            message = f"{self._path}, line {number}: {what}; name the file of the same run, or another file"
            raise RequestError("file.unreadable", message)
        return one

    def write(self, results: Iterable[Applied]) -> None:
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
