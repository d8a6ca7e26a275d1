"""Provides several submitted files as modules, for programs that run more than one text.

Submitted modules take precedence over all others. Each is named after its path below the work directory,
and compiled from the text that its file contained before any of them ran. They share the interpreter's
built-in names, which include the guarded importer.
"""

from __future__ import annotations

import os
import sys

from .. import builtin_names
from ..builtin_names import hide_closure
from ..failures import ShownText
from ..requests import get_object, get_strings
from ..substitutes import Value
from ._adapter import build_adapter_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType, SimpleNamespace
    from typing import Any

    from ..policy import RuntimePolicy
    from . import Arguments

    Compile = Callable[["SubmittedFile"], tuple[CodeType, Mapping[str, object]]]
    """Returns the code of a file, and names to add to its module."""
else:
    from _frozen_importlib import ModuleSpec

    ModuleType, SimpleNamespace = type(sys), type(sys.implementation)

builtin_names.isolate_builtins(globals())

_INIT = "__init__"


class SubmittedFile(Value):
    """One submitted Python file. `file` is the submitted name, `path` its path in the container."""

    name: str
    file: str
    path: str
    text: str

    @property
    def is_package(self) -> bool:
        """Return whether the file is a package's `__init__.py`."""
        return self.file.rpartition("/")[2] == f"{_INIT}.py"

    def compile(self) -> CodeType:
        """Compile the text. Raises the compiler's exceptions, including MemoryError and RecursionError."""
        return compile(self.text, self.path, "exec", dont_inherit=True)


class SubmittedModules(Value):
    """The submitted Python files by module name, and the modules that the container provides."""

    files: Mapping[str, SubmittedFile]
    provided: tuple[str, ...]
    decorators: tuple[str, ...]
    base_classes: tuple[str, ...]

    @property
    def texts(self) -> dict[str, ShownText]:
        """Return the texts by the file names under which they were compiled."""
        return {one.path: ShownText(one.file, one.text) for one in self.files.values()}

    def offer(self, policy: RuntimePolicy, compiled: Compile) -> None:
        """Make the files, and the provided adapter modules, importable by import statements."""
        shown = {one.path: one.file for one in self.files.values()}
        names = policy.share_builtins(shown)
        _install_modules(build_adapter_modules(self.provided, self.decorators, self.base_classes))
        packages = _list_package_names(self.files)

        def find(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            one = self.files.get(name)
            if one is None and name not in packages:
                return None
            origin = None if one is None else one.path
            spec = ModuleSpec(name, loader, origin=origin, is_package=name in packages)
            spec.has_location = one is not None
            return spec

        def execute(module: ModuleType) -> None:
            one = self.files.get(module.__name__)
            if one is not None:
                code, more = compiled(one)
                module.__dict__.update(more, __builtins__=names)
                policy.start_attributing()
                exec(code, module.__dict__)  # noqa: S102 - this is what the container is for

        # Plain containers: a class of this project would lead guest code to our functions' globals.
        loader: Any = SimpleNamespace(
            create_module=hide_closure(_create_default), exec_module=hide_closure(execute)
        )
        finder: Any = SimpleNamespace(find_spec=hide_closure(find))
        sys.meta_path.insert(0, finder)


def read_modules(arguments: Arguments) -> SubmittedModules:
    """Read all files that the argument `modules` names, before any of them can change another file.

    Raises: InvalidRequest, if a field of the argument is invalid.
    """
    said = get_object(arguments, "modules")
    import linecache  # imports `tokenize`

    found = [_read_submitted(file) for file in get_strings(said, "files")]
    for one in found:
        # So that tracebacks show the executed text, whatever the file contains by then.
        linecache.cache[one.path] = (len(one.text), None, one.text.splitlines(keepends=True), one.path)
    return SubmittedModules(
        files={one.name: one for one in found},
        provided=get_strings(said, "provided"),
        decorators=get_strings(said, "decorators"),
        base_classes=get_strings(said, "base_classes"),
    )


def compile_unchanged(one: SubmittedFile) -> tuple[CodeType, Mapping[str, object]]:
    """Return the compiled code of a file without any changes."""
    return one.compile(), {}


def module_name(file: str) -> str:
    """Return the name of a file's module, e.g. ``client.api`` of ``client/api.py``."""
    return file.removesuffix(".py").replace("/", ".").removesuffix(f".{_INIT}")


def _read_submitted(file: str) -> SubmittedFile:
    path = os.path.join(os.getcwd(), file)
    with open(path, encoding="utf-8", newline="") as opened:
        return SubmittedFile(name=module_name(file), file=file, path=path, text=opened.read())


def _list_package_names(files: Mapping[str, SubmittedFile]) -> frozenset[str]:
    """Return the module names of packages: the folders above the files, and ``__init__.py`` files."""
    above = {
        ".".join(parts[:count])
        for parts in (name.split(".") for name in files)
        for count in range(1, len(parts))
    }
    return frozenset(above | {one.name for one in files.values() if one.is_package})


def _install_modules(modules: Mapping[str, ModuleType]) -> None:
    """Install prepared modules and their parent packages in `sys.modules`."""
    for name, module in modules.items():
        parts = name.split(".")
        sys.modules[name] = module
        for count in range(len(parts) - 1, 0, -1):
            package = sys.modules.setdefault(".".join(parts[:count]), ModuleType(".".join(parts[:count])))
            package.__dict__.setdefault("__path__", [])
            setattr(package, parts[count], sys.modules[".".join(parts[: count + 1])])


def _create_default(spec: ModuleSpec) -> None:
    """Return None, so that the import system creates the module."""
