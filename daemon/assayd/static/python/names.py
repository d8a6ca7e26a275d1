"""Defines which names the security scan allows or forbids; the module `security` applies these rules."""

from __future__ import annotations

import re
import unicodedata
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)

BUILTINS = {
    "exec": "running text as code",
    "eval": "running text as code",
    "compile": "turning text into code",
    "__import__": "importing by name",
    "open": "opening files",
    "input": "asking for input",
    "breakpoint": "debugging",
    "globals": "reaching the namespace",
    "locals": "reaching the namespace",
    "dir": "looking into objects",
    "help": "asking for input",
    "exit": "ending the process",
    "quit": "ending the process",
    "copyright": "reading files",
    "credits": "reading files",
    "license": "reading files",
}
"""Rejected builtins, with their effects."""

BY_NAME = frozenset({"getattr", "hasattr", "setattr", "delattr"})
"""Builtins that take an attribute name as a string; computed names are checked at run time."""

REASON_BY_MODULE = {
    "os": "operating system access; os.path is for paths",
    "sys": "interpreter access",
    "io": "file access",
    "builtins": "dynamic code",
    "importlib": "dynamic imports",
    "subprocess": "running programs",
    "pty": "running programs",
    "commands": "running programs",
    "shutil": "file access",
    "tempfile": "file access",
    "fileinput": "file access",
    "glob": "file access",
    "zipfile": "file access",
    "tarfile": "file access",
    "sqlite3": "file access",
    "socket": "network access",
    "ssl": "network access",
    "http": "network access",
    "ftplib": "network access",
    "smtplib": "network access",
    "urllib.request": "network access",
    "urllib.error": "network access",
    "urllib.robotparser": "network access",
    "requests": "network access",
    "httpx": "network access",
    "aiohttp": "network access",
    "pickle": "deserialisation that runs code",
    "shelve": "deserialisation that runs code",
    "marshal": "deserialisation that runs code",
    "ctypes": "memory access",
    "platform": "system access",
    "inspect": "looking into running code",
    "gc": "looking into running code",
    "multiprocessing": "starting processes",
    "threading": "starting threads",
    "concurrent": "starting threads",
    "asyncio": "starting tasks",
    "signal": "system access",
}
"""Reasons why modules aren't allowed in submitted code, by module or package."""

NAMES_BY_PACKAGE = {
    "os": frozenset(
        {
            "PathLike", "altsep", "curdir", "devnull", "extsep", "fsdecode", "fsencode", "fspath", "linesep",
            "name", "pardir", "pathsep", "sep",
        }
    ),
}  # fmt: skip
"""Usable names of packages that an allowed submodule binds: ``import os.path`` binds ``os``."""

_OPERATORS = """
    abs add aenter aexit aiter and anext await bool bytes call ceil class_getitem complex contains delitem
    divmod enter eq exit float floor floordiv format fspath ge get getitem gt hash iadd iand ifloordiv ilshift
    imatmul imod imul index init init_subclass int invert ior ipow irshift isub iter itruediv ixor le len
    length_hint lshift lt matmul missing mod mul ne neg new next or pos post_init pow radd rand rdivmod repr
    reversed rfloordiv rlshift rmatmul rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor set set_name
    setitem str sub truediv trunc xor
"""
OPERATOR_METHODS = frozenset(f"__{name}__" for name in _OPERATORS.split())
"""Special methods that classes can define and code can call."""

READABLE_DUNDERS = frozenset(
    {
        "__annotations__", "__args__", "__class__", "__dataclass_fields__", "__debug__", "__doc__",
        "__match_args__",
        "__members__", "__module__", "__name__", "__origin__", "__parameters__", "__qualname__",
    }
)  # fmt: skip
"""Readable special names: plain strings, types, an enum's members."""

SETTABLE_THROUGH_SUPER = frozenset({"__setattr__", "__delattr__"})
"""Special methods that code can call on ``super()``, for classes that override attribute access."""

UNDEFINABLE_DUNDERS = frozenset(
    {
        "__builtins__", "__class__", "__closure__", "__code__", "__debug__", "__dict__", "__file__",
        "__getattribute__",
        "__globals__", "__import__", "__loader__", "__module__", "__mro__", "__name__", "__package__",
        "__path__",
        "__qualname__", "__spec__", "__subclasses__", "__weakref__",
    }
)  # fmt: skip
"""Special names of the interpreter. Modules and classes can define all others."""

_INTERPRETER_TYPES = (
    BuiltinFunctionType, CodeType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType,
    TracebackType,
    classmethod, object, property, type,
)  # fmt: skip
_INTERPRETER_ATTRS = frozenset(name for kind in _INTERPRETER_TYPES for name in dir(kind))


def can_bind(name: str) -> bool:
    """Return whether code can bind a special name. A pattern can then read a field of that name."""
    known = OPERATOR_METHODS | READABLE_DUNDERS
    return name not in UNDEFINABLE_DUNDERS and (name in known or name not in _INTERPRETER_ATTRS)


def can_read_own(name: str) -> bool:
    """Return whether code can read a special name that the source itself defines."""
    return name not in _INTERPRETER_ATTRS | UNDEFINABLE_DUNDERS


INTERNALS_PATTERN = re.compile(
    r"(?:gi|cr|ag)_(?:frame|code|running|yieldfrom|await|origin|suspended)"
    r"|tb_(?:frame|next|lasti|lineno)"
    r"|f_(?:back|builtins|code|globals|locals|trace\w*|lasti|lineno)"
    r"|co_(?:argcount|cellvars|code|consts|exceptiontable|filename|firstlineno|flags|freevars|kwonlyargcount|lines"
    r"|linetable|lnotab|name|names|nlocals|positions|posonlyargcount|qualname|stacksize|varnames)"
    r"|func_(?:globals|code|closure|defaults|dict)"
    r"|mro|_convert_"
)
"""Attributes that lead from an object to frames, code objects, namespaces or other classes."""

_FILE_METHODS = """
    chmod exists glob hardlink_to is_block_device is_char_device is_dir is_fifo
    is_file is_junction is_mount is_socket is_symlink iterdir lchmod link_to lstat mkdir open owner read_bytes
    read_text readlink rename resolve rglob rmdir samefile stat symlink_to touch unlink walk write_bytes
    write_text
"""
STREAM_ATTRIBUTES = frozenset({"buffer", "detach", "raw"})
"""Attributes that lead from a stream (``StreamHandler().stream``) to its open file."""
STREAM_MODULES = frozenset({"contextlib", "io", "logging"})

FILE_METHODS = frozenset(_FILE_METHODS.split())
"""Methods of pathlib paths that access files. Not `replace`, because strings have a method of that name."""
ENVIRONMENT_METHODS = frozenset({"absolute", "cwd", "expanduser", "home"})
"""Methods of pathlib paths that read the working directory or the home directory."""
ENVIRONMENT_FUNCTIONS = frozenset(
    f"{module}.{name}"
    for module in ("os.path", "posixpath", "ntpath")
    for name in ("abspath", "expanduser", "expandvars")
)
"""Functions that read these directories or the environment."""


def normalize_name(name: str) -> str:
    """Return a name in NFKC, the Unicode normalization form that the compiler uses for names."""
    return unicodedata.normalize("NFKC", name)


def is_dunder(name: str) -> bool:
    """Return whether a name begins and ends with two underscores."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def get_refusal_reason(module: str) -> str | None:
    """Return the reason why a module isn't allowed in submitted code, or None if no reason is known."""
    while module:
        if module in REASON_BY_MODULE:
            return REASON_BY_MODULE[module]
        module = module.rpartition(".")[0]
    return None
