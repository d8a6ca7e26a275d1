"""Preparations that are made once, before the first fork, because each child would need time for them."""

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
_THREAD_MODULES = frozenset({"logging", "threading"})
"""Modules whose fork handlers only repair the state that other threads left behind."""

_register_at_fork = os.register_at_fork
_deferred_handlers: list[dict[str, Callable[[], object]]] = []
_text_streams: dict[str, IO[str]] = {}
_ours: list[str] = []
_newest = ""
_environment: dict[str, str] = {}
_signals_reset = False


def preload(name: str) -> bool:
    """Import a module for later children. Return whether it is loaded."""
    if name in sys.modules:
        return True
    try:
        __import__(name)
    except Exception:  # noqa: BLE001 - a module may fail to import in any way; the daemon is told
        return False
    return True


def extract_environment() -> dict[str, str]:
    """Return the image programs' environment. Reduce `os.environ` to the image's constants.

    Clones of a template get the result of the first call.
    """
    if _environment:
        return _environment
    constants = os.environ.get("ASSAYD_CONSTANTS", "").split(":")
    kept = {name: os.environ[name] for name in (*_FOR_PROGRAMS, *constants) if name in os.environ}
    os.environ.clear()
    os.environ.update({name: kept[name] for name in constants if name in kept})
    _environment.update(kept)
    return kept


def record_own_modules() -> None:
    """Find the daemon's guest code among the modules loaded since the last call, and record it.

    Only new modules are checked, because iterating over all modules would write to the memory page of each
    name, and forks share these pages.
    """
    global _newest  # noqa: PLW0603 - of this process
    newest = next(reversed(sys.modules))
    for name in reversed(sys.modules):
        if name == _newest:
            break
        if f"{name}.".startswith((f"{__package__}.", "ctypes.", "_ctypes.")):
            _ours.append(name)
    _newest = newest


def hide_own_modules() -> None:
    """Remove the guest runner's modules and ctypes from `sys.modules`, so that guest code can't use them.

    Running code keeps references to them. Code that is allowed to use ctypes imports it again.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not hasattr(finder, "holds_guest_code")]
    record_own_modules()
    for name in _ours:
        sys.modules.pop(name, None)


def open_shared_memory() -> tuple[int, ...]:
    """Open ``/dev/shm``, and return a tuple with its descriptor; empty if the directory doesn't exist."""
    try:
        return (os.open("/dev/shm", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),)  # noqa: S108 - as it is called
    except FileNotFoundError:
        return ()


def defer_fork_handlers() -> None:
    """Defer the fork handlers that modules register for threads, because only one thread exists.

    Otherwise, the clone and each child would write to about a hundred memory pages that forks share.
    """
    os.register_at_fork = _defer_handlers  # type: ignore[assignment]  # takes the same


def stop_deferring_handlers(*, guest_forks: bool) -> None:
    """Stop deferring. Register the deferred handlers if guest code can fork or threads are running."""
    os.register_at_fork = _register_at_fork
    if guest_forks or _count_threads():
        for handlers in _deferred_handlers:
            _register_at_fork(**handlers)


def _defer_handlers(**handlers: Callable[[], object]) -> None:
    if _THREAD_MODULES.issuperset(getattr(handler, "__module__", "") for handler in handlers.values()):
        _deferred_handlers.append(handlers)
    else:
        _register_at_fork(**handlers)


def freeze_memory() -> None:
    """Disable garbage collection, because it would write to memory pages that forked children share."""
    gc.disable()
    gc.freeze()


def reset_signals() -> None:
    """Reset every signal to its default, regardless of inherited settings, unless a template has done so.

    PID 1 with default handlers ignores all signals from its namespace.
    """
    global _signals_reset  # noqa: PLW0603 - of this process
    if _signals_reset:
        return
    _signals_reset = True
    for number in signal.valid_signals() - _NOT_RESETTABLE - _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)


def relocate_standard_streams() -> tuple[int, int]:
    """Move the protocol away from descriptors 0 and 1. Redirect prints of imported modules to stderr.

    Children use the descriptors up to 6, so the runner's own descriptors must be higher.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    while null < _FIRST_FREE_DESCRIPTOR - 1:
        null = os.dup(null)
    source, sink, errors = os.dup(0), os.dup(1), os.dup(2)
    create_text_streams()
    for target, origin in enumerate((null, errors, errors)):
        os.dup2(origin, target)
    return source, sink


def create_text_streams() -> None:
    """Create the children's text streams once, because creating them in each child takes too long.

    The streams depend on the type of their descriptors, so 0, 1 and 2 are temporarily pipes, as in a child.
    """
    if _text_streams:
        return
    before = [os.dup(target) for target in range(3)]
    reading, writing = os.pipe()
    for target, origin in ((0, reading), (1, writing), (2, writing)):
        os.dup2(origin, target)
    os.close(reading)
    os.close(writing)
    for name, stream in (
        ("stdin", _open_text_stream(0, "r", "surrogateescape")),
        ("stdout", _open_text_stream(1, "w", "backslashreplace")),
        ("stderr", _open_text_stream(2, "w", "backslashreplace")),
    ):
        _text_streams[name] = stream
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for target, origin in enumerate(before):
        os.dup2(origin, target)
        os.close(origin)


def _open_text_stream(descriptor: int, mode: str, errors: str) -> IO[str]:
    # Line-buffered, so that text printed before a kill is kept.
    return open(descriptor, mode, 1, encoding="utf-8", errors=errors, closefd=False)
