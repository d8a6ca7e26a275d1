"""A module's files: their paths, number, sizes and roles, and which file is at fault.

This module checks only names and sizes; other checks read the contents.

    ../adapter.py            paths.not_inside
    a//b.py                  paths.not_normal
    pytest.ini               paths.planted
    json.py                  paths.shadows
    x and x/y.py             paths.conflict
    a.py and a/__init__.py   paths.conflict      (one name for two modules)
    A.py and a.py            paths.conflict      (one file on a case-insensitive file system)
    eleven files             paths.too_many
    one of 100,001 bytes     paths.too_large

Decides which file of a module is at fault, based on the errors in the report.

A test that fails or doesn't finish is evidence against the tested code. A model that had to fix the test
could change it to agree with the code. Therefore, after such a failure, a test file is never reported as at
fault.

    tests.failed in test_rates.py            rates.py if it exists, otherwise the adapter
    sandbox.out_of_memory in test_rates.py   the same
    tests.import_failed in test_rates.py     test_rates.py, unless a test has failed elsewhere
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from assayd.model.finding import Finding, Rule
from assayd.model.text_limits import shorten_text

MAX_FILES = 10
MAX_FILE_BYTES = 100_000
_MAX_PATH_BYTES = 200
_MAX_DEPTH = 8

RULES = (
    Rule(
        id="paths.not_inside",
        title="A file outside the module",
        help="Bad: ../adapter.py. Good: adapter.py.",
    ),
    Rule(
        id="paths.not_normal",
        title="A file name isn't normalized",
        help="Bad: ./a//b.py. Good: a/b.py.",
    ),
    Rule(id="paths.conflict", title="Two files conflict"),
    Rule(
        id="paths.planted",
        title="A file configures the test framework or interpreter",
        help="Bad: conftest.py. Good: fixtures in the test file.",
    ),
    Rule(
        id="paths.shadows",
        title="A file shadows a module",
        help="Bad: json.py. Good: weather_json.py.",
    ),
    Rule(id="paths.too_many", title="Too many files", help=f"A module has at most {MAX_FILES} files."),
    Rule(
        id="paths.too_large",
        title="A file is too large",
        help=f"A file has at most {MAX_FILE_BYTES} bytes.",
    ),
)

_CONFIGURATION_FILES = frozenset(
    {
        "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg",
        "pyproject.toml", "sitecustomize.py", "usercustomize.py",
    }
)  # fmt: skip
_REFUSED_SUFFIXES = (".pth", ".pyc", ".pyo", ".so", ".pyd", ".egg-link")
_REFUSED_FOLDERS = (".dist-info", ".egg-info", "__pycache__")
_IMAGE_MODULES = frozenset(
    {
        "_pytest", "aiohttp", "aiosignal", "anyio", "assayd", "assayd_guest", "async_timeout",
        "attr", "attrs", "certifi", "chardet", "charset_normalizer", "exceptiongroup", "frozenlist",
        "h11", "httpcore", "httpx", "idna", "iniconfig", "multidict", "packaging", "pkg_resources",
        "pluggy", "py", "pydantic", "pygments", "pytest", "pytest_asyncio", "requests", "rfc3986",
        "setuptools", "six", "sniffio", "submission", "tomli", "typing_extensions", "urllib3",
        "yarl",
    }
)  # fmt: skip
"""Modules of the image in addition to the standard library, and names that the runner provides."""


def check_files(files: Mapping[str, str], provided: Iterable[str]) -> Iterator[Finding]:
    """Yield findings about names and sizes of a module's files. `provided` are the container's modules."""
    taken = {name.partition(".")[0] for name in provided} | _IMAGE_MODULES | sys.stdlib_module_names
    if len(files) > MAX_FILES:
        message = f"The module has {len(files)} files; {MAX_FILES} are allowed."
        yield _finding("paths.too_many", None, message, "Combine files, or remove unneeded ones.")
    yield from _check_duplicates(files)
    for name, text in files.items():
        yield from _check_name(name, files, taken)
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_FILE_BYTES:
            message = f"{shorten_text(name, 100)!r} has {size} bytes; {MAX_FILE_BYTES} are allowed."
            yield _finding("paths.too_large", name, message, "Split the file, or move data out of it.")


def is_python(name: str) -> bool:
    """Return whether a file is a Python file."""
    return name.endswith(".py")


def is_test(name: str) -> bool:
    """Return whether pytest would collect tests from a file."""
    stem = PurePosixPath(name).stem
    return is_python(name) and (stem.startswith("test_") or stem.endswith("_test"))


def list_test_files(files: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted names of the test files."""
    return tuple(sorted(name for name in files if is_test(name)))


def find_adapter_file(files: Iterable[str], entrypoint: object) -> str | None:
    """Return the adapter's file, or None if it can't be determined.

    The adapter's file is ``adapter.py``; otherwise, the file of the manifest's entrypoint; otherwise, the
    only top-level Python file without tests.
    """
    plain = (name for name in files if is_python(name) and not is_test(name) and "/" not in name)
    top = sorted(name for name in plain if name != "__init__.py")
    for name in ("adapter.py", f"{entrypoint}.py"):
        if name in top:
            return name
    return top[0] if len(top) == 1 else None


def module_name(file: str) -> str:
    """Return the name of the module in a file, e.g. ``client.api`` for ``client/api.py``."""
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def list_own_modules(files: Iterable[str]) -> frozenset[str]:
    """Return the names of the modules in the files, and the names of their parent packages."""
    names = {module_name(name) for name in files if is_python(name)}
    above = {
        ".".join(parts[:n]) for parts in (name.split(".") for name in names) for n in range(1, len(parts))
    }
    return frozenset(names | above)


def _check_name(name: str, files: Mapping[str, str], taken: frozenset[str] | set[str]) -> Iterator[Finding]:
    problem = _find_name_problem(name)
    if problem is not None:
        rule, message, suggestion = problem
        yield _finding(rule, name, f"{shorten_text(name, 100)!a} {message}.", suggestion)
        return
    parts = name.split("/")
    if parts[-1] in _CONFIGURATION_FILES or name.endswith(_REFUSED_SUFFIXES) or _is_in_metadata_folder(parts):
        message = f"{name!r} configures the test framework or the interpreter, which modules can't do."
        yield _finding("paths.planted", name, message, "Remove it; put fixtures into the test files.")
        return
    if any("/".join(parts[:count]) in files for count in range(1, len(parts))):
        yield _finding("paths.conflict", name, f"{name!r} is below another file.", "Rename one of the two.")
    top = parts[0].removesuffix(".py") if len(parts) == 1 else parts[0]
    if top in taken and (is_python(name) or len(parts) > 1):
        message = f"{name!r} shadows the module {top!r}."
        yield _finding("paths.shadows", name, message, f"Choose another name, e.g. own_{parts[0]}.")


def _check_duplicates(files: Iterable[str]) -> Iterator[Finding]:
    """Yield findings about files that have the same import name or whose names differ only in case."""
    by_case: dict[str, str] = {}
    by_module: dict[str, str] = {}
    for name in sorted(files):
        alike = by_case.setdefault(name.lower(), name)
        same = by_module.setdefault(module_name(name), name) if is_python(name) else name
        if alike != name or same != name:
            other, how = (alike, "differ only in case") if alike != name else (same, "are the same module")
            message = f"{shorten_text(other, 100)!a} and {shorten_text(name, 100)!a} {how}."
            yield _finding("paths.conflict", name, message, "Rename one of the two.")


def _find_name_problem(name: str) -> tuple[str, str, str] | None:
    parts = name.split("/")
    if name.startswith(("/", "~")) or ".." in parts or "\\" in name or (len(name) > 1 and name[1] == ":"):
        return (
            "paths.not_inside",
            "is outside the module",
            "Use paths relative to the module.",
        )
    if not name or "" in parts or "." in parts:
        return (
            "paths.not_normal",
            "isn't normalized",
            "Write it without '.' and double slashes.",
        )
    if not name.isprintable() or not name.isascii() or name.strip() != name:
        return "paths.not_normal", "contains characters that aren't allowed", "Use plain letters."
    if len(name.encode()) > _MAX_PATH_BYTES or len(parts) > _MAX_DEPTH:
        return "paths.not_normal", "is too long or too deep", "Use shorter names and fewer folders."
    if is_python(name) and not all(part.isidentifier() for part in module_name(name).split(".")):
        suggestion = "Use letters, digits and underscores, so that it can be imported."
        return "paths.not_normal", "isn't a module name", suggestion
    return None


def _is_in_metadata_folder(parts: Sequence[str]) -> bool:
    return any(part.endswith(_REFUSED_FOLDERS) for part in parts[:-1])


def _finding(rule: str, file: str | None, message: str, suggestion: str) -> Finding:
    return Finding(
        rule=rule,
        category="path",
        message=shorten_text(message),
        file=None if file is None else shorten_text(file, 200),
        suggestion=suggestion,
    )


_FAILURE_RULES = frozenset({"tests.failed", "tests.hung", "tests.error", "tests.exited", "tests.not_run"})
_SANDBOX_PREFIX = "sandbox."
"""Prefix of the rules for a process's end; the tested code ends the process of a test file."""

Errors = Iterable[Mapping[str, object]]


def find_faulty_file(errors: Errors, files: Iterable[str], adapter: str) -> str:
    """Return the file at fault: the first file to which an error is attributed, or the adapter."""
    names = frozenset(files)
    return next(
        (name for name in _iter_blamed_files(tuple(errors), names, adapter) if name in names), adapter
    )


def has_failed_test(errors: Errors) -> bool:
    """Return whether a test ran but failed or was terminated."""
    return any(map(_is_failed_test, errors))


def _iter_blamed_files(errors: Errors, files: frozenset[str], adapter: str) -> Iterator[str]:
    failed = has_failed_test(errors)
    for error in errors:
        name = str(error.get("file"))
        if not (failed and is_test(name)):
            yield name
        elif _is_failed_test(error):
            yield _find_tested_file(name, files) or adapter


def _is_failed_test(error: Mapping[str, object]) -> bool:
    rule = str(error.get("rule"))
    return rule in _FAILURE_RULES or (rule.startswith(_SANDBOX_PREFIX) and is_test(str(error.get("file"))))


def _find_tested_file(test: str, files: frozenset[str]) -> str | None:
    """Return the file that a test file is named after (``rates.py`` for ``test_rates.py``).

    Return None if not exactly one file has this name.
    """
    stem = PurePosixPath(test).stem
    names = {stem.removeprefix("test_"), stem.removesuffix("_test")}
    found = [one for one in files if is_python(one) and not is_test(one) and PurePosixPath(one).stem in names]
    return found[0] if len(found) == 1 else None
