"""The parts that programs for submitted Python texts share: reading, compiling, and running as a module."""

from __future__ import annotations

import sys

from .. import builtin_names
from ..substitutes import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, ModuleType
    from typing import TypeVar

    from ..policy import RuntimePolicy

    _T = TypeVar("_T")

builtin_names.isolate_builtins(globals())

_Module = type(sys)


class SubmittedText(Value):
    """A submitted text, together with the names that it can use."""

    source: str
    filename: str
    builtins: str

    def compile(self) -> CodeType:
        """Compile the text. Raises the compiler's exceptions, including MemoryError and RecursionError."""
        return compile(self.source, self.filename, "exec", dont_inherit=True)

    def module(self, name: str, policy: RuntimePolicy, namespace: Mapping[str, object]) -> ModuleType:
        """Create the module in which the text runs, which is also available as ``__main__``."""
        module = _Module(name)
        module.__dict__.update(namespace)
        module.__dict__["__builtins__"] = policy.builtins(self.builtins, self.filename)
        module.__dict__["__file__"] = self.filename
        sys.modules[name] = sys.modules["__main__"] = module
        sys.argv = [self.filename]
        return module


def read_text(arguments: Mapping[str, object]) -> SubmittedText:
    """Return the fields that the arguments of all Python programs contain."""
    return SubmittedText(
        source=get_argument(arguments, "source", str),
        filename=get_argument(arguments, "filename", str),
        builtins=get_argument(arguments, "builtins", str),
    )


def get_argument(arguments: Mapping[str, object], name: str, kind: type[_T]) -> _T:
    """Return an argument. Check that it has exactly this type. Raises: TypeError."""
    value = arguments.get(name)
    if type(value) is not kind:
        raise TypeError(f"argument {name} is not a {kind.__name__}")
    return value
