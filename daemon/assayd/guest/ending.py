"""Ends a unit that ran as a program, using the steps of an interpreter's exit that affect the program.

Threads are joined, exit functions are run, objects are finalised, and files are flushed and closed. An
interpreter would also clear every loaded module and thereby write to memory pages that forks share: 7,000
pages and 40 ms if pandas is loaded. Here, modules of the image aren't cleared. If threads are still
running, the interpreter ends the process, which stops them.

Source: ``Py_FinalizeEx`` in CPython's Python/pylifecycle.c.
"""

from __future__ import annotations

import os
import sys
from _thread import _count as _count_threads
from _weakref import ref
from atexit import _run_exitfuncs
from gc import collect

from . import kernel, private
from .failures import exception_message
from .suppress import suppress
from .values import type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, NoReturn

    _Names = dict[str, object]

private.isolate_builtins(globals())

_NOT_FLUSHED = 120
"""Exit status of a Python program whose output could not be written to the end."""
_MAIN = "__main__"

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


def newest_module() -> str:
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
        _delete_modules(_own_modules(newest, libraries))
    with suppress(BaseException):
        _flush_streams()
        _flush_c_streams()
    _exit(status if flushed else _NOT_FLUSHED)


def _join_threads() -> None:
    threading = _modules.get("threading")
    if threading is not None:
        threading._shutdown()


def _flush_streams() -> bool:
    """Flush standard output and standard error; if this fails, report it and return False."""
    flushed = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not _is_closed(stream):
                stream.flush()
        except BaseException as problem:  # noqa: BLE001 - the guest may have put anything there
            flushed = False
            raised = f"{type_name(problem)}: {exception_message(problem)}"
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


def _own_modules(newest: str, libraries: tuple[str, ...]) -> list[str]:
    """Return the names of modules that form the program, that it created, or that are in its folder."""
    own = [_MAIN]
    for name in reversed(_modules):
        if name == newest:
            break
        module = _modules[name]
        if type(module) is _Module and not _is_of_image(module.__dict__, libraries):
            own.append(name)
    return own


def _is_of_image(names: _Names, libraries: tuple[str, ...]) -> bool:
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
            _unbind(left.names)
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


def _unbind(names: _Names) -> None:
    """Bind all names to None, beginning with names that start with one underscore."""
    for private_ones in (True, False):
        for name in list(names):
            is_private = name.startswith("_") and not name.startswith("__")
            if is_private == private_ones and name != "__builtins__":
                names[name] = None
