"""The steps of a child from the fork to the first line of guest code, and after its last line.

The child drops its privileges in the only order that is possible: descriptors and signals first, then
rlimits, `/proc`, the system call filter, and finally the Python audit hook. All steps except the hook are
completed and reported before the child receives its request, because it may have been forked before its
unit begins.

A unit that ran as a program ends with the steps of an interpreter's exit that affect the program: threads
are joined, exit functions are run, objects are finalised, and files are flushed and closed. An interpreter
would also clear every loaded module and thereby write to memory pages that forks share: 7,000 pages and 40
ms if pandas is loaded. Here, modules of the image aren't cleared. If threads are still running, the
interpreter ends the process, which stops them. Source: ``Py_FinalizeEx`` in CPython's Python/pylifecycle.c.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from _thread import _count as _count_threads
from _weakref import ref
from atexit import _run_exitfuncs
from gc import collect

from . import builtin_names, kernel, substitutes
from .failures import get_exception_message
from .policy import RuntimePolicy
from .processes import UnconfinedChildError
from .programs import Context
from .reporter import Reporter
from .seccomp import REPORT, add_isolation_rules, get_filters
from .substitutes import Value, suppress
from .values import type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Mapping
    from typing import IO, NoReturn

    from .programs import UnitProgram
    from .reporter import Record
    from .requests import BeginFrame, GuestLimits

    _Names = dict[str, object]
else:
    import _signal as signal

builtin_names.isolate_builtins(globals())

_EXIT_NOT_FLUSHED = 120
"""Exit status of a Python program whose output could not be written to the end."""
_MAIN_MODULE = "__main__"

_exit = os._exit
_write = os.write
_end_interpreter = kernel.end_interpreter
_flush_c_streams = kernel.flush_c_streams
_Module = type(sys)
_modules = sys.modules


class _NamespaceMark:
    """A marker object in a module's namespace, which exists as long as the namespace."""

    __slots__ = ("__weakref__", "names")

    def __init__(self, names: _Names) -> None:
        self.names = names


def find_newest_module() -> str:
    """Return the name of the most recently loaded module."""
    return next(reversed(_modules))


def end_program(status: int, *, newest: str, libraries: tuple[str, ...]) -> NoReturn:
    """End this process like a Python program.

    Args:
        status: the exit status; it is replaced with 120 if standard output or standard error can't be
            flushed.
        newest: the last module that was loaded before the program.
        libraries: the folders of modules that are not cleared.
    """
    flushed = True
    with suppress(BaseException):  # registered by the guest
        _join_threads()
    with suppress(BaseException):
        _run_exitfuncs()
    if _count_threads():  # daemon threads, which would see names disappear
        _end_interpreter(status)
    with suppress(BaseException):
        flushed = _flush_streams()
    with suppress(BaseException):
        _restore_streams()
        _delete_modules(_find_own_modules(newest, libraries))
    with suppress(BaseException):
        _flush_streams()
        _flush_c_streams()
    _exit(status if flushed else _EXIT_NOT_FLUSHED)


def _join_threads() -> None:
    threading = _modules.get("threading")
    if threading is not None:
        threading._shutdown()


def _flush_streams() -> bool:
    """Flush standard output and standard error. Return whether this succeeded, and report any error."""
    flushed = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not _is_closed(stream):
                stream.flush()
        except BaseException as problem:  # noqa: BLE001 - the guest may have put anything there
            flushed = False
            raised = f"{type_name(problem)}: {get_exception_message(problem)}"
            said = f"Exception ignored when {name} was flushed: {raised}\n"
            with suppress(OSError):
                _write(2, said.encode())
    return flushed


def _is_closed(stream: IO[str]) -> bool:
    try:
        return bool(stream.closed)
    except BaseException:  # noqa: BLE001 - what does not say so is open
        return False


def _restore_streams() -> None:
    """Restore the initial streams, since the program's streams are deleted with its names."""
    for name in ("stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__", None))


def _find_own_modules(newest: str, libraries: tuple[str, ...]) -> list[str]:
    """Return the names of modules that form the program, that it created, or that are in its folder."""
    own = [_MAIN_MODULE]
    for name in reversed(_modules):
        if name == newest:
            break
        module = _modules[name]
        if type(module) is _Module and not _are_image_modules(module.__dict__, libraries):
            own.append(name)
    return own


def _are_image_modules(names: _Names, libraries: tuple[str, ...]) -> bool:
    file = names.get("__file__")
    # Built-in modules have no file.
    return file.startswith(libraries) if type(file) is str else names.get("__spec__") is not None


def _delete_modules(modules: list[str]) -> None:
    """Delete modules, together with all objects that only these modules reference.

    Modules without other references are finalised while their names are still bound. In other modules (e.g.
    if a library references one of their functions), the names are unbound, as in an interpreter's exit.
    """
    # Collecting puts reachable objects in finalisation order: a text stream before its file.
    collect()
    marks = list(_mark_modules(modules))
    collect()
    for mark in marks:
        left = mark()
        if left is not None:
            _unbind_names(left.names)
    collect()


def _mark_modules(modules: list[str]) -> Iterator[ref[_NamespaceMark]]:
    for name in modules:
        module = _modules.pop(name, None)
        if type(module) is _Module:
            mark = _NamespaceMark(module.__dict__)
            module.__dict__[""] = mark
            yield ref(mark)
            del mark
        del module


def _unbind_names(names: _Names) -> None:
    """Bind all names except `__builtins__` to None, first those that start with one underscore."""
    for private_ones in (True, False):
        for name in list(names):
            is_private = name.startswith("_") and not name.startswith("__")
            if is_private == private_ones and name != "__builtins__":
                names[name] = None


ORDER = REPORT + 1
"""Descriptor on which a child receives its request; closed before submitted code runs."""

_TESTS_PROGRAM = "tests"
_BROKEN = 70
"""Exit status when our own part of the child fails; its traceback is then on standard error."""
_EXIT_FAILED = 1
_EXIT_BY_STATUS: Mapping[object, int] = {"returned": 0, "skipped": 0, "not_executed": 127}
"""Exit status by the status of a record; 127 is what a shell gives for a program that it cannot start."""
_MAX_OOM_SCORE_ADJ = b"1000"
CONFINED = b"c"
"""The first byte that a child writes to its report pipe, after it has dropped its privileges."""
_RECURSION_LIMIT = 1000
_READ_BYTES = 64 * 1024

leave = os._exit
"""The original `os._exit`. Guest code can replace the function only in `os`."""
_set_recursion_limit = sys.setrecursionlimit


class Descriptors(Value):
    """The runner's descriptors that the child receives. Their numbers are all above 6.

    `paired` contains the descriptors of two more pipes, for reading and for writing, if the child
    communicates with another child.
    """

    stdin: int
    stdout: int
    stderr: int
    report: int
    order: int
    work: int
    paired: tuple[int, int] | None = None


class Confinement(Value):
    """The restrictions of every child of an attempt, prepared before the first fork.

    `filters` contains the filters that the child loads; the runner has already loaded the other filters.
    `environment` is the environment for the image's programs; `proxies` is the part of `environment` that
    Python code gets.
    """

    rlimits: tuple[tuple[int, int], ...]
    policy: RuntimePolicy
    reporter: Reporter
    filters: tuple[bytes, ...]
    environment: Mapping[str, str]
    proxies: Mapping[str, str]


def encode_request(program: str, arguments: bytes, *, has_input: bool) -> bytes:
    """Return the request to write to `ORDER`. Without input, standard input is empty."""
    return b"%s %d\n%s" % (program.encode(), has_input, arguments)


def prepare_confinement(
    attempt: BeginFrame, work_path: str, environment: Mapping[str, str], proxies: Mapping[str, str]
) -> Confinement:
    """Prepare the confinement of an attempt's children, and load the filter that they inherit.

    Raises: UnconfinedChildError, if the filter can't be loaded.
    """
    reporter = Reporter(REPORT)
    shared, own = get_filters(allow_exec=attempt.allow_exec, allow_inet=attempt.allow_inet)
    return Confinement(
        rlimits=tuple(_iter_rlimits(attempt.limits)),
        policy=RuntimePolicy(attempt, work_path, reporter),
        reporter=reporter,
        filters=(own,) if _share_filter(attempt, shared) else (shared, own),
        environment={**environment, **proxies},
        proxies=proxies,
    )


def _share_filter(attempt: BeginFrame, shared: bytes) -> bool:
    """Load the inherited filter, unless this process needs sockets. Return whether it was loaded.

    Raises: UnconfinedChildError, if the filter can't be loaded.
    """
    if attempt.relay is not None or _TESTS_PROGRAM in attempt.programs:
        return False
    try:
        kernel.forbid_new_privileges()
        kernel.load_filter(shared)
    except OSError as problem:
        raise UnconfinedChildError(f"the seccomp filter couldn't be loaded: {problem}") from problem
    return True


def become(
    confinement: Confinement, programs: Mapping[str, UnitProgram], descriptors: Descriptors
) -> NoReturn:
    """Turn this fork of the runner into a unit's process, and run the request. This call never returns."""
    status = _BROKEN
    try:
        detach_from_runner(descriptors)
        null = -1 if descriptors.paired is None else os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        drop_privileges(confinement, None if descriptors.paired is None else TESTS)
        os.write(REPORT, CONFINED)
        if descriptors.paired is not None:
            _discard_output(null)
        told = _read_request()
        # None means that this child gets no unit.
        status = _run_request(told, confinement, programs) if told else 0
    except BaseException:  # noqa: BLE001 - guest code ran; nothing may get back into the runner's code
        from traceback import format_exc  # rarely needed, and slower than all else in a child

        os.write(2, format_exc().encode("utf-8", "backslashreplace"))
    finally:
        _exit(status)


class ProcessIsolation(Value):
    """The isolation of a process from a concurrent process of the same user."""

    killable: bytes
    writes: bool


TESTS = ProcessIsolation(killable=b"500", writes=False)
"""The tests' process can't write files. If memory runs out, the kernel ends the solution first."""
SOLUTION_ISOLATION = ProcessIsolation(killable=_MAX_OOM_SCORE_ADJ, writes=True)


def drop_privileges(confinement: Confinement, apart: ProcessIsolation | None) -> None:
    """Drop the privileges of this process that a child must not have."""
    for kind, value in confinement.rlimits:
        resource.setrlimit(kind, (value, value))
    _set_oom_score(_MAX_OOM_SCORE_ADJ if apart is None else apart.killable)
    os.environ.update(confinement.proxies)
    kernel.forbid_new_privileges()
    *shared, own = confinement.filters
    for program in shared:
        kernel.load_filter(program)
    kernel.load_filter(own if apart is None else add_isolation_rules(own, os.getpid(), writes=apart.writes))


def _discard_output(null: int) -> None:
    """Discard the output of a tests' process below Python: it may contain expected values."""
    os.dup2(null, 1)
    os.dup2(null, 2)


def _read_request() -> bytearray:
    """Wait for a request and return it. The result is empty if the runner doesn't need this child."""
    told = bytearray()
    while part := os.read(ORDER, _READ_BYTES):
        told += part
    os.close(ORDER)
    return told


def _run_request(told: bytearray, confinement: Confinement, programs: Mapping[str, UnitProgram]) -> int:
    end = told.index(b"\n")
    name, has_input = told[:end].decode().split()
    del told[: end + 1]
    arguments: dict[str, object] = substitutes.loads(told)  # type: ignore[assignment]  # the daemon wrote it
    told.clear()
    if not int(has_input):
        _redirect_stdin_to_empty()
    program = programs[name]
    if program.IN_PYTHON:
        confinement.policy.install()
        gc.freeze()  # otherwise, the collector would visit, and so copy, the runner's objects since `begin`
        gc.enable()
    else:
        # CPython ignores these two; the runner has defaults for all others.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    context = Context(
        policy=confinement.policy, reporter=confinement.reporter, environment=confinement.environment
    )
    newest = find_newest_module()
    return _send_record(program.run(arguments, context), confinement, newest)


def _redirect_stdin_to_empty() -> None:
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)


def detach_from_runner(descriptors: Descriptors) -> None:
    """Leave the runner's session, descriptors, working directory and signal settings."""
    os.setsid()
    os.fchdir(descriptors.work)
    sources = (
        descriptors.stdin,
        descriptors.stdout,
        descriptors.stderr,
        descriptors.report,
        descriptors.order,
        *(descriptors.paired or ()),
    )
    for target, source in enumerate(sources):
        os.dup2(source, target, inheritable=target < REPORT)
    os.closerange(len(sources), os.sysconf("SC_OPEN_MAX"))
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _iter_rlimits(limits: GuestLimits) -> Iterator[tuple[int, int]]:
    """Yield each rlimit with its value, which is at most this process's limit."""
    for kind, value in (
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_FSIZE, limits.work_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        yield kind, value if hard == resource.RLIM_INFINITY else min(value, hard)


def _set_oom_score(how: bytes) -> None:
    """Make the kernel kill this process rather than the runner if memory runs out.

    A process that isn't dumpable can't write its own `/proc` file, so it is made dumpable briefly.
    """
    kernel.set_dumpable(True)
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(descriptor, how)
    os.close(descriptor)
    kernel.set_dumpable(False)


def _send_record(record: Record, confinement: Confinement, newest: str) -> int:
    # The guest may have set a recursion limit at which nothing works.
    _set_recursion_limit(_RECURSION_LIMIT)
    for stream in ("stdout", "stderr", "__stdout__", "__stderr__"):
        _flush_stream(stream)
    exit_code = record.get("exit_code")
    # Ending a program runs guest code again.
    confinement.reporter.result(record, last=type(exit_code) is not int)
    if type(exit_code) is int:
        end_program(exit_code, newest=newest, libraries=confinement.policy.libraries)
    return _EXIT_BY_STATUS.get(record["status"], _EXIT_FAILED)


def _flush_stream(stream: str) -> None:
    """Flush the guest's object that has the name of an output stream. Ignore all errors."""
    try:
        getattr(sys, stream).flush()
    except BaseException:  # noqa: BLE001 - the guest may have put anything there
        return
