"""What the runner does once, before the first fork: all that would cost each child time."""

from __future__ import annotations

import gc
import os
import sys
from _thread import _count as _count_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import IO
else:
    import _signal as signal

_FIRST_FREE_DESCRIPTOR = 7
_FOR_PROGRAMS = ("PATH", "LANG")
_NOT_RESETTABLE = {signal.SIGKILL, signal.SIGSTOP}
_IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
_FOR_THREADS = frozenset({"logging", "threading"})
"""Whose handlers of forks put right what other threads have left behind, and nothing else."""

_register_at_fork = os.register_at_fork
_postponed: list[dict[str, Callable[[], object]]] = []
_renewed: dict[str, IO[str]] = {}
_ours: list[str] = []
_newest = ""


def preload(name: str) -> bool:
    """Import a module for the children to find; False when that fails."""
    if name in sys.modules:
        return True
    try:
        __import__(name)
    except Exception:  # noqa: BLE001 - a module may fail to import in any way; the daemon is told
        return False
    return True


def take_environment() -> dict[str, str]:
    """Return what programs of the image are started with; leave what the image sets for all code."""
    constants = os.environ.get("ASSAYD_CONSTANTS", "").split(":")
    kept = {name: os.environ[name] for name in (*_FOR_PROGRAMS, *constants) if name in os.environ}
    os.environ.clear()
    os.environ.update({name: kept[name] for name in constants if name in kept})
    return kept


def find_our_modules() -> None:
    """Find which of the modules are ours that were loaded since this was last called.

    Whoever goes through all of them writes to the page of each name, which forks share.
    """
    global _newest  # noqa: PLW0603 - of this process
    newest = next(reversed(sys.modules))
    for name in reversed(sys.modules):
        if name == _newest:
            break
        if f"{name}.".startswith((f"{__package__}.", "ctypes.", "_ctypes.")):
            _ours.append(name)
    _newest = newest


def hide_our_modules() -> None:
    """Take our modules, and ctypes, which only we need, out of the reach of guest code.

    What runs holds them by reference. Code that may use ctypes imports it anew.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not hasattr(finder, "holds_guest_code")]
    find_our_modules()
    for name in _ours:
        sys.modules.pop(name, None)


def open_shared_memory() -> tuple[int, ...]:
    """Open the folder of POSIX shared memory, where the container has one."""
    try:
        return (os.open("/dev/shm", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),)  # noqa: S108 - as it is called
    except FileNotFoundError:
        return ()


def postpone_fork_handlers() -> None:
    """Keep from here on what modules want done at a fork because of threads: there is one.

    Done for the clone and for each child, it would write to some hundred pages in each that forks share.
    """
    os.register_at_fork = _postpone  # type: ignore[assignment]  # takes the same


def end_postponing(*, guest_forks: bool) -> None:
    """Let modules register again; what was kept is registered where guest code may fork, or threads run."""
    os.register_at_fork = _register_at_fork
    if guest_forks or _count_threads():
        for handlers in _postponed:
            _register_at_fork(**handlers)


def _postpone(**handlers: Callable[[], object]) -> None:
    if _FOR_THREADS.issuperset(getattr(handler, "__module__", "") for handler in handlers.values()):
        _postponed.append(handlers)
    else:
        _register_at_fork(**handlers)


def settle_memory() -> None:
    """Leave objects where they are: collecting them would copy pages that forks share."""
    gc.disable()
    gc.freeze()


def reset_signals() -> None:
    """Put every signal at its default, whatever the runner was started with.

    As PID 1 that makes it deaf to all that its namespace sends.
    """
    for number in signal.valid_signals() - _NOT_RESETTABLE - _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)


def take_standard_streams() -> tuple[int, int]:
    """Move the conversation away from 0 and 1; what imported modules print goes to standard error.

    The descriptors up to 6 are what a child gets; none of ours may be among them.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    while null < _FIRST_FREE_DESCRIPTOR - 1:
        null = os.dup(null)
    source, sink, errors = os.dup(0), os.dup(1), os.dup(2)
    renew_text_streams()
    for target, origin in enumerate((null, errors, errors)):
        os.dup2(origin, target)
    return source, sink


def renew_text_streams() -> None:
    """Make the text streams that children will use, once, as it takes too long to be done in each.

    They remember what they were made for, so 0, 1 and 2 are pipes for that moment, as in a child.
    """
    if _renewed:
        return
    before = [os.dup(target) for target in range(3)]
    reading, writing = os.pipe()
    for target, origin in ((0, reading), (1, writing), (2, writing)):
        os.dup2(origin, target)
    os.close(reading)
    os.close(writing)
    for name, stream in (
        ("stdin", _text_stream(0, "r", "surrogateescape")),
        ("stdout", _text_stream(1, "w", "backslashreplace")),
        ("stderr", _text_stream(2, "w", "backslashreplace")),
    ):
        _renewed[name] = stream
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for target, origin in enumerate(before):
        os.dup2(origin, target)
        os.close(origin)


def _text_stream(descriptor: int, mode: str, errors: str) -> IO[str]:
    # By lines, so that what was printed before a kill is kept.
    return open(descriptor, mode, 1, encoding="utf-8", errors=errors, closefd=False)
