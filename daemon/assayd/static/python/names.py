"""The names that matter to the security scan, as data. How they are applied is in `python_security`."""

from __future__ import annotations

import re
import unicodedata

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
    "vars": "reaching the namespace",
    "dir": "looking into objects",
    "help": "asking for input",
    "exit": "ending the process",
    "quit": "ending the process",
    "copyright": "reading files",
    "credits": "reading files",
    "license": "reading files",
}
"""Builtins that are refused, with what they would do."""

BY_NAME = frozenset({"getattr", "hasattr", "setattr", "delattr"})
"""Builtins that take an attribute's name as text."""

MODULE_REASONS = {
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
    "urllib.request": "network access; urllib.parse is for URLs",
    "urllib": "network access; urllib.parse is for URLs",
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
"""Why a module is not for submitted code; asked for the module, then for its packages."""

PACKAGE_NAMES = {
    "os": frozenset({"altsep", "curdir", "extsep", "fspath", "pardir", "pathsep", "sep"}),
}
"""What may be used of a package that an allowed submodule binds: ``import os.path`` binds ``os``."""

_OPERATORS = """
    abs add aenter aexit aiter and anext await bool bytes call ceil class_getitem complex contains delitem
    divmod enter eq exit float floor floordiv format ge get getitem gt hash iadd iand ifloordiv ilshift
    imatmul imod imul index init init_subclass int invert ior ipow irshift isub iter itruediv ixor le len
    length_hint lshift lt matmul missing mod mul ne neg new next or pos post_init pow radd rand rdivmod repr
    reversed rfloordiv rlshift rmatmul rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor set set_name
    setitem str sub truediv trunc xor
"""
OPERATOR_METHODS = frozenset(f"__{name}__" for name in _OPERATORS.split())
"""Special methods that a class may define and code may call."""

READABLE_DUNDERS = frozenset(
    {"__name__", "__qualname__", "__doc__", "__module__", "__members__", "__debug__"}
)
"""Special names that may be read: plain text, and an enum's members."""

ASSIGNABLE_DUNDERS = frozenset(
    {"__all__", "__author__", "__date__", "__doc__", "__hash__", "__license__", "__slots__", "__version__"}
)
"""Special names that a module or a class may set."""

INTERNALS = re.compile(
    r"(?:gi|cr|ag)_(?:frame|code|running|yieldfrom|await|origin|suspended)"
    r"|tb_(?:frame|next|lasti|lineno)"
    r"|f_(?:back|builtins|code|globals|locals|trace\w*|lasti|lineno)"
    r"|co_\w+|func_(?:globals|code|closure|defaults|dict)"
    r"|mro|_convert_?"
)
"""Attributes that lead from an object to frames, code, namespaces or other classes."""

_FILE_METHODS = """
    absolute chmod cwd exists expanduser glob hardlink_to home is_block_device is_char_device is_dir is_fifo
    is_file is_junction is_mount is_socket is_symlink iterdir lchmod link_to lstat mkdir open owner read_bytes
    read_text readlink rename resolve rglob rmdir samefile stat symlink_to touch unlink walk write_bytes
    write_text
"""
FILE_METHODS = frozenset(_FILE_METHODS.split())
"""Methods of pathlib paths that touch files; `replace` is among them but shares its name with text's."""


def normal(name: str) -> str:
    """Return a name as the compiler would read it."""
    return unicodedata.normalize("NFKC", name)


def is_dunder(name: str) -> bool:
    """Return whether a name begins and ends in two underscores."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def reason_for(module: str) -> str | None:
    """Say why a module is not for submitted code, when that is known."""
    while module:
        if module in MODULE_REASONS:
            return MODULE_REASONS[module]
        module = module.rpartition(".")[0]
    return None
