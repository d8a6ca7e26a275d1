"""The audit hook: judges operations that reach beyond the interpreter or inspect its internals.

For each event, the hook decides whether to judge it, who caused it (`FrameClassifier`), whether the policy
allows it, and whether to refuse or only record it. ``os._exit`` raises no event; `block_os_exit` replaces
it.

Code counts as library code if its file is in a library folder; all other code counts as guest code. To
create a code object with a library's file name, guest code must compile, load or construct it, each of
which raises an audit event.
"""

from __future__ import annotations

import os
import posix
import sys
from _thread import get_ident
from os import O_ACCMODE, O_RDONLY, getcwd, getpid
from sys import _getframe

from . import builtin_names
from .builtin_names import hide_closure
from .substitutes import Value
from .values import is_real_subclass, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType
    from typing import NoReturn

    from .reporter import Reporter

    Judge = Callable[[str, tuple[object, ...], "CallerLocation"], "JudgedEvent | None"]

builtin_names.isolate_builtins(globals())

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
        self.libraries = tuple(_list_library_folders(self.work))
        self._trusted = ("<frozen ", *self.libraries)

    def locate(self, frame: FrameType | None) -> CallerLocation:
        """Return the location of an operation, based on the stack from this frame outwards."""
        direct, importing = True, False
        while frame is not None and frame.f_code.co_filename.startswith(self._trusted):
            direct = False
            importing = importing or frame.f_code.co_filename.startswith(_IMPORT_SYSTEM)
            frame = frame.f_back
        return CallerLocation(direct and frame is not None, importing, *self._find_submitted_line(frame))

    def find_guest_caller(self) -> FrameType | None:
        """Return the frame that called this method's caller, or None if that frame is library code."""
        thread = get_ident()
        self.looking.add(thread)
        try:
            frame: FrameType | None = _getframe(2)
            trusted = frame is None or frame.f_code.co_filename.startswith(self._trusted)
            return None if trusted else frame
        finally:
            self.looking.discard(thread)

    def is_library(self, frame: FrameType) -> bool:
        """Return whether a frame runs code of Python itself or of an installed library."""
        return frame.f_code.co_filename.startswith(self._trusted)

    def skip_import_frames(self, frame: FrameType) -> FrameType:
        """Return the frame that requested an import: the first frame outside the import system.

        If there is none, return the outermost frame.
        """
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


def _list_library_folders(work: str) -> list[str]:
    ours = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.dirname(os.__file__), ours, *sys.path]
    found = {os.path.abspath(folder) + "/" for folder in folders if os.path.isabs(folder)}
    return sorted(folder for folder in found if not folder.startswith(work) and folder != "/")


Arguments = tuple[object, ...]

_CODE_EVENTS = frozenset(
    {"exec", "compile", "code.__new__", "function.__new__", "marshal.loads", "marshal.load"}
)
_INTROSPECTION = frozenset(
    {
        "sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.addaudithook", "sys.settrace",
        "sys.setprofile", "gc.get_objects", "gc.get_referrers", "gc.get_referents",
    }
)  # fmt: skip
_FRAME_ATTRIBUTES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
_PROGRAM_EVENTS = frozenset(
    {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "pty.spawn"}
)
_FORK_EVENTS = frozenset({"os.fork", "os.forkpty"})
_NATIVE_EVENTS = frozenset(
    {
        "ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function", "ctypes.cdata",
        "ctypes.string_at", "ctypes.wstring_at", "sqlite3.enable_load_extension", "sqlite3.load_extension",
    }
)  # fmt: skip
_FILE_EVENTS = frozenset({"open", "sqlite3.connect"})
_EXIT_MODULE = "posix"
"""The module that contains ``_exit``. It is loaded before any guest code, and can't be loaded again."""
_NAME_LOOKUPS = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})
_ADDRESS_EVENTS = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"})

_AF_OF_DESCRIPTOR, _AF_UNIX = -1, 1
_LOOPBACK = frozenset({"", "localhost", "127.0.0.1", "::1"})
_DEVICES = frozenset(
    {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout", "/dev/stderr"}
)
_TMP_PATH_PREFIX = "/tmp/"  # noqa: S108 - a link of the image into the work directory
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - where multiprocessing keeps its locks
_WORLD_READABLE_PATHS = ("/usr/share/zoneinfo/", "/etc/localtime")
"""Time zone files. The library that reads them is written in C, so its caller seems to read them."""
_LIBRARY_READABLE_PATHS = (
    "/usr/lib/",
    "/usr/share/",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/ssl/",
)


class HookRules(Value):
    """The parts of the policy that the hook needs."""

    enforce: bool
    allow_exec: bool
    allow_fork: bool
    allow_inet: bool
    allow_native: bool


class JudgedEvent:
    """A checked event, with its description and the policy's decision."""

    __slots__ = ("allowed", "detail", "kind")

    def __init__(self, kind: str, detail: str, allowed: bool) -> None:
        self.kind, self.detail, self.allowed = kind, detail, allowed


class AuditHook:
    """A callable for ``sys.addaudithook``. It raises PermissionError for refused operations."""

    def __init__(self, rules: HookRules, places: FrameClassifier, reporter: Reporter) -> None:
        self._rules = rules
        self._places = places
        self._reporter = reporter
        self._judges = self._map_judges()

    def __call__(self, event: str, arguments: Arguments) -> None:
        """Check one audit event against the policy. Raises: PermissionError, if the operation is refused."""
        judge = self._judges.get(event)
        if event == "import" and arguments[0] != _EXIT_MODULE:
            return
        thread, looking = get_ident(), self._places.looking
        if judge is None or thread in looking:
            return
        looking.add(thread)
        try:
            self._judge(judge, event, arguments, self._places.locate(_getframe(1)))
        finally:
            looking.discard(thread)

    def _judge(self, judge: Judge, event: str, arguments: Arguments, place: CallerLocation) -> None:
        act = judge(event, arguments, place)
        if act is None:
            return
        refused = self._rules.enforce and not act.allowed
        self._reporter.event(
            act.kind, act.detail, allowed=act.allowed, enforced=refused, file=place.file, line=place.line
        )
        if refused:
            raise PermissionError(f"{act.kind} ({act.detail}) is not allowed by the policy")

    def _map_judges(self) -> Mapping[str, Judge]:
        judges: dict[str, Judge] = {}
        for events, judge in (
            (_CODE_EVENTS | _INTROSPECTION, self._judge_code),
            ({"object.__getattr__", "object.__setattr__"}, self._judge_attribute),
            (_PROGRAM_EVENTS, self._judge_program),
            (_FORK_EVENTS, self._judge_fork),
            (_NATIVE_EVENTS, self._judge_native),
            (_FILE_EVENTS, self._judge_file),
            (_NAME_LOOKUPS, self._judge_lookup),
            (_ADDRESS_EVENTS, self._judge_address),
            ({"socket.__new__"}, self._judge_socket),
            ({"import"}, self._judge_reload),
        ):
            judges.update(dict.fromkeys(events, judge))
        return judges

    def _judge_code(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        """Refuse code creation and frame inspection by guest code itself. Ignore both in libraries."""
        return JudgedEvent(event, event, False) if place.direct else None

    def _judge_attribute(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        """Refuse access to frames by guest code, and replacement of code, even by a library on its behalf."""
        name = _to_plain_string(arguments[1])
        if event == "object.__setattr__":
            return JudgedEvent(event, name, False) if name == "__code__" and not place.importing else None
        return JudgedEvent(event, name, False) if name in _FRAME_ATTRIBUTES and place.direct else None

    def _judge_program(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        return JudgedEvent(event, _to_plain_string(arguments[0]), self._rules.allow_exec)

    def _judge_reload(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        """Refuse a second load of a module, which would restore names that were removed from the first."""
        return JudgedEvent(event, _EXIT_MODULE, False)

    def _judge_fork(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        return JudgedEvent(event, event, self._rules.allow_fork)

    def _judge_native(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        """Check calls of C functions, except those by modules that are being loaded (e.g. `ctypes`)."""
        if place.importing:
            return None
        named = event.startswith("ctypes.dl") and arguments
        return JudgedEvent(
            event,
            _to_plain_string(arguments[-1 if "dlsym" in event else 0]) if named else event,
            self._rules.allow_native,
        )

    def _judge_file(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        """Check a path by its text: it can be in the work directory, a harmless device, or any other path."""
        if type(arguments[0]) is int:
            return None
        path = _to_plain_string(arguments[0])
        if event == "sqlite3.connect" and path in {"", ":memory:"}:
            return None
        full = _resolve(path)
        if full in _DEVICES or f"{full}/".startswith((self._places.work, _TMP_PATH_PREFIX)):
            return None
        reads = event == "open" and type(arguments[2]) is int and arguments[2] & O_ACCMODE == O_RDONLY
        if reads and full.startswith(_WORLD_READABLE_PATHS):
            return None
        fine = (
            (_SHARED_MEMORY, *_LIBRARY_READABLE_PATHS, *self._places.libraries) if reads else _SHARED_MEMORY
        )
        return None if not place.direct and f"{full}/".startswith(fine) else JudgedEvent(event, full, False)

    def _judge_lookup(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        port = arguments[1] if event == "socket.getaddrinfo" else None
        return self._judge_destination(arguments[0], port)

    def _judge_address(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        address = arguments[1]
        if not is_real_subclass(address, tuple) or tuple.__len__(address) < 2:
            return None
        return self._judge_destination(tuple.__getitem__(address, 0), tuple.__getitem__(address, 1))

    def _judge_socket(self, event: str, arguments: Arguments, place: CallerLocation) -> JudgedEvent | None:
        if place.importing:
            return None  # a library that probes for features; the system call filter answers it
        family = arguments[1]
        if type(family) is not int:
            family = int.__index__(family) if is_real_subclass(family, int) else 0
        if family in {_AF_OF_DESCRIPTOR, _AF_UNIX} or self._rules.allow_inet:
            return None
        return JudgedEvent("network", f"socket family {family}", False)

    def _judge_destination(self, host: object, port: object) -> JudgedEvent | None:
        """Check a network destination. Under an allowlist, guest code can reach only the proxy."""
        name = "" if host is None else _to_plain_string(host)
        if self._rules.allow_inet and name in _LOOPBACK:
            return None
        return JudgedEvent("network", name if port is None else f"{name}:{_to_plain_string(port)}", False)


def _to_plain_string(value: object) -> str:
    """Return any value as a string, without running code of its class."""
    if is_real_subclass(value, str):
        return str.__str__(value)
    if is_real_subclass(value, bytes):
        return bytes.decode(value, "utf-8", "backslashreplace")
    if is_real_subclass(value, int):
        return int.__repr__(value) if -(10**12) < int.__index__(value) < 10**12 else "a large number"
    return f"a {type_name(value)}"


def _resolve(path: str) -> str:
    """Return a path in absolute, normalized form, based only on its text, without following links."""
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{getcwd()}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


_real_os_exit = os._exit


def block_os_exit(places: FrameClassifier, reporter: Reporter) -> None:
    """Replace ``os._exit`` with a function that reports the call and raises PermissionError.

    In forks of this process, ``os._exit`` still works.
    """
    ours = getpid()

    def refuse(status: int) -> NoReturn:
        if getpid() != ours:
            _real_os_exit(status)
        place = places.locate(_getframe(1))
        reporter.event("os._exit", "os._exit", allowed=False, enforced=True, file=place.file, line=place.line)
        raise PermissionError("os._exit is not allowed by the policy: let the code end by itself")

    os._exit = posix._exit = hide_closure(refuse)
