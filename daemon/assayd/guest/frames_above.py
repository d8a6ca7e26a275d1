"""Determines whether guest code or a library caused an operation, and the submitted line that did so.

Code counts as library code if its file is in a library folder; all other code counts as guest code. To
create a code object with a library's file name, guest code must compile, load or construct it, each of
which raises an audit event.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from sys import _getframe

from . import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

private.isolate_builtins(globals())

_IMPORT_SYSTEM = "<frozen importlib"
_IMPORT_MODULES = frozenset({"_frozen_importlib", "importlib", "importlib._bootstrap", "pkgutil"})


class CallerLocation:
    """The facts about an operation that the stack frames above it show.

    `direct` is True if guest code performed the operation itself, not through a library. `importing` is
    True if the operation was performed while a module was being loaded. `file` and `line` are the submitted
    name of the innermost submitted file on the stack, and the line in this file; None if no submitted file
    is on the stack.
    """

    __slots__ = ("direct", "file", "importing", "line")

    def __init__(self, direct: bool, importing: bool, file: str | None, line: int | None) -> None:
        self.direct, self.importing, self.file, self.line = direct, importing, file, line


class FrameClassifier:
    """A classifier that assigns stack frames to guest code or to a library."""

    def __init__(self, work_path: str) -> None:
        self.submitted: dict[str, str] = {}
        """File names that submitted texts were compiled under, each with the name that it is shown by."""
        self.looking: set[int] = set()
        """Threads that inspect frames, which raises audit events itself."""
        self.work = work_path.rstrip("/") + "/"
        self.libraries = tuple(_library_folders(self.work))
        self._trusted = ("<frozen ", *self.libraries)

    def locate(self, frame: FrameType | None) -> CallerLocation:
        """Return the location shown by the stack, from this frame upwards."""
        direct, importing = True, False
        while frame is not None and frame.f_code.co_filename.startswith(self._trusted):
            direct = False
            importing = importing or frame.f_code.co_filename.startswith(_IMPORT_SYSTEM)
            frame = frame.f_back
        return CallerLocation(direct and frame is not None, importing, *self._find_submitted_line(frame))

    def find_guest_caller(self) -> FrameType | None:
        """Return the frame that called the caller, if this frame is guest code; otherwise None."""
        thread = get_ident()
        self.looking.add(thread)
        try:
            frame: FrameType | None = _getframe(2)
            trusted = frame is None or frame.f_code.co_filename.startswith(self._trusted)
            return None if trusted else frame
        finally:
            self.looking.discard(thread)

    def is_library(self, frame: FrameType) -> bool:
        """Return whether a frame belongs to a library."""
        return frame.f_code.co_filename.startswith(self._trusted)

    def skip_import_frames(self, frame: FrameType) -> FrameType:
        """Return the frame that requested an import, i.e. the first frame outside the import system."""
        while frame.f_back is not None and frame.f_globals.get("__name__") in _IMPORT_MODULES:
            frame = frame.f_back
        return frame

    def _find_submitted_line(self, frame: FrameType | None) -> tuple[str | None, int | None]:
        while frame is not None:
            file = self.submitted.get(frame.f_code.co_filename)
            if file is not None:
                return file, frame.f_lineno
            frame = frame.f_back
        return None, None


def _library_folders(work: str) -> list[str]:
    ours = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.dirname(os.__file__), ours, *sys.path]
    found = {os.path.abspath(folder) + "/" for folder in folders if os.path.isabs(folder)}
    return sorted(folder for folder in found if not folder.startswith(work) and folder != "/")
