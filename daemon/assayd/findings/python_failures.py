"""Describes exceptions of code nodes and scripts about undefined names and failed imports.

The guest controls an exception's type and text, which therefore affect only wording. A message that the
interpreter didn't produce (e.g. of a NameError raised explicitly by code) is shown unchanged.

    total = sum(prices)               sandbox.name_undefined   'prices' is not defined
    def f(): n += 1                   sandbox.name_unbound     'n' is read before it has a value
    import pandas                     sandbox.module_missing   the image has no module 'pandas'
    from json import loadz            sandbox.import_missing   'json' has no 'loadz'
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import itertools
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assayd.did_you_mean import find_close_names
from assayd.findings.runs import RAISED_RULE, build_exception_finding
from assayd.guest.near import MOST_CHARS, compute_edit_distance, max_edit_distance
from assayd.guest_results import RaisedException
from assayd.model.finding import Finding, Rule
from assayd.model.text_limits import shorten_text

_MAX_COMPARED = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestName:
    """The nearest name. `certain` means that only this name is a single edit step away."""

    name: str
    certain: bool


def find_nearest_name(
    name: str, circles: Sequence[Iterable[str]], fitting: Iterable[str] = ()
) -> NearestName | None:
    """Return the name that was most likely meant, or None if all names are too different.

    Args:
        name: the written name.
        circles: the visible names of each scope, beginning with the nearest scope.
        fitting: names that fit the use; they are preferred to other names at the same distance.
    """
    if len(name) > MOST_CHARS:
        return None
    most = max_edit_distance(name)
    fits = frozenset(fitting)
    ranked: dict[str, tuple[int, bool, int]] = {}
    for circle, names in enumerate(circles):
        compared = 0
        for other in sorted(names):
            if other in ranked or other == name or abs(len(other) - len(name)) > most:
                continue
            if compared >= _MAX_COMPARED:
                break
            compared += 1
            steps = compute_edit_distance(name, other)
            if steps <= most:
                ranked[other] = (steps, bool(fits) and other not in fits, circle)
    if not ranked:
        return None
    best = min(ranked, key=lambda other: (ranked[other], other))
    steps = ranked[best][0]
    rivals = [other for other, (others, _, _) in ranked.items() if others <= steps and other != best]
    certain = steps == 1 and not rivals and len(name) >= 3 and not (fits and best not in fits)
    return NearestName(name=best, certain=certain)


RULES = (
    RAISED_RULE,
    Rule(
        id="sandbox.name_undefined",
        title="A name that isn't defined",
        help="Bad: total = sum(prices), with no prices. Good: define, import or pass prices first.",
    ),
    Rule(
        id="sandbox.name_unbound",
        title="A local variable is read before assignment",
        help="Bad: def f(): n += 1. Good: n = 0 before it, or take n as an argument.",
    ),
    Rule(
        id="sandbox.module_missing",
        title="A module that the image doesn't have",
        help="Bad: import pandas. Good: import csv, statistics.",
    ),
    Rule(
        id="sandbox.import_missing",
        title="A name that the module doesn't have",
        help="Bad: from json import loadz. Good: from json import loads.",
    ),
)

_MISSING_STDLIB_MODULES = frozenset(
    {
        "ensurepip", "idlelib", "lib2to3", "msilib", "msvcrt", "nt", "tkinter", "turtle", "turtledemo",
        "winreg", "winsound",
    }
)  # fmt: skip
IMAGE_MODULES = frozenset(sys.stdlib_module_names - _MISSING_STDLIB_MODULES)
"""The top-level modules of the image `python`."""

_NO_CLIENT_HINT = "an input for the data (network access is blocked)"
_STDLIB_BY_MODULE: Mapping[str, str] = {
    "aiohttp": _NO_CLIENT_HINT,
    "arrow": "datetime and zoneinfo",
    "bs4": "html.parser",
    "dateutil": "datetime.fromisoformat and zoneinfo",
    "httpx": _NO_CLIENT_HINT,
    "lxml": "xml.etree.ElementTree",
    "numpy": "statistics, math and lists",
    "openpyxl": "csv",
    "pandas": "csv, statistics, itertools and collections",
    "polars": "csv, statistics, itertools and collections",
    "pydantic": "dataclasses",
    "pytz": "zoneinfo",
    "regex": "re",
    "requests": _NO_CLIENT_HINT,
    "scipy": "statistics and math",
    "simplejson": "json",
    "ujson": "json",
    "yaml": "json",
}
_MODULE_BY_PACKAGE: Mapping[str, str] = {
    "beautifulsoup4": "bs4",
    "opencv_python": "cv2",
    "pillow": "PIL",
    "python_dateutil": "dateutil",
    "pyyaml": "yaml",
    "scikit_learn": "sklearn",
}
"""Modules whose distributions have a different name."""
_MODULE_BY_ALIAS: Mapping[str, str] = {"np": "numpy", "pd": "pandas", "plt": "matplotlib"}
_IDENTIFIER_PATTERN = re.compile(r"[^\W\d]\w*")
_MAX_SCANNED_CHARS = 100_000
_NAMES_BY_MODULE: Mapping[str, Collection[str]] = {
    "collections.abc": collections.abc.__all__,
    "collections": collections.__all__,
    "itertools": [name for name in dir(itertools) if not name.startswith("_")],
    "functools": functools.__all__,
    "math": ["gcd", "isclose", "lcm"],
    "typing": typing.__all__,
}
"""The current modules of names that code imports from an old place: from collections import Mapping."""
_BUILTINS = frozenset(vars(builtins))
_TYPING_NAMES = frozenset(typing.__all__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionContext:
    """The context for explaining an exception.

    `offer` is a sentence about the importable modules. `required` contains the requirements that the
    submission states; `awaited` contains the names that it expected to be set, but that weren't set.
    `files` contains the submitted texts by name, if there are several or if the kind adds a harness in
    another file; `text` is the main text.
    """

    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    offer: str = "Python's standard library"
    required: Collection[str] = ()
    awaited: Collection[str] = ()


def build_failure_finding(record: RaisedException, around: ExceptionContext) -> Finding:
    """Return the finding for an uncaught exception of the submitted code or of its kind's harness.

    For an undefined name or a failed import, the finding has a specific rule.
    """
    if is_harness_error(record, around):
        return _build_harness_finding(record)
    if record.file is not None and record.file in around.files:
        own = replace(around, text=around.files[record.file], files={})
        return replace(build_failure_finding(record, own), file=record.file)
    plain = build_exception_finding(record, around.text)
    for error_type, pattern, explain in _EXPLANATIONS:
        found = pattern.fullmatch(record.message) if record.error_type == error_type else None
        if found is not None:
            rule, message, suggestion = explain(found, around)
            if record.meant is not None:
                suggestion = f"Did you mean '{record.meant}'?"
            return replace(
                plain, rule=rule, message=shorten_text(message), suggestion=shorten_text(suggestion)
            )
    return plain


def is_harness_error(record: RaisedException, around: ExceptionContext) -> bool:
    """Return whether the kind's harness raised the exception: code in another file or after the text."""
    if record.file is not None and around.files:
        return record.file not in around.files
    text = around.text
    return bool(text) and record.line is not None and record.line > text.count("\n") + 1


def _build_harness_finding(record: RaisedException) -> Finding:
    """Return the finding for an exception raised by the kind's harness.

    The finding has no line numbers, because the author can't see the harness.
    """
    plain = build_exception_finding(record, "")
    return replace(
        plain,
        line=None,
        snippet=None,
        message=shorten_text(f"The kind's own code failed: {plain.message}"),
        suggestion="Check the types and values that the code returns. If they are right, report this to the "
        "author of the kind.",
        edit=None,
    )


def _explain_undefined_name(found: re.Match[str], around: ExceptionContext) -> tuple[str, str, str]:
    name = found[1]
    if name in around.awaited:
        message = f"'{name}' is declared as an input, but has no value."
        return (
            "sandbox.name_undefined",
            message,
            f"Pass '{name}' in the inputs, or assign it before this line.",
        )
    return "sandbox.name_undefined", f"'{name}' is not defined.", _suggest_definition(name, around.text)


def _suggest_definition(name: str, text: str) -> str:
    """Return the most likely fix for an undefined name: an import, a similar name, or a definition."""
    if name in IMAGE_MODULES:
        return f"Put at the top: import {name}"
    if name in _TYPING_NAMES:
        return f"Put at the top: from typing import {name}"
    if name in _MODULE_BY_ALIAS:
        return (
            f"The image has no {_MODULE_BY_ALIAS[name]}; use {describe_replacement(_MODULE_BY_ALIAS[name])}."
        )
    close = find_nearest_name(
        name, [dict.fromkeys(_IDENTIFIER_PATTERN.findall(text[:_MAX_SCANNED_CHARS])), _BUILTINS]
    )
    if close is not None:
        return f"Did you mean '{close.name}'? Otherwise define '{name}' before it is used."
    return f"Define or import '{name}' before it is used."


def _explain_unbound_local(found: re.Match[str], around: ExceptionContext) -> tuple[str, str, str]:
    name = found[1]
    message = f"The local variable '{name}' is read before it has a value."
    remedy = f"Assign '{name}' on every code path that reaches this line, or make it a parameter."
    return "sandbox.name_unbound", message, remedy


def _explain_free_variable(found: re.Match[str], around: ExceptionContext) -> tuple[str, str, str]:
    name = found[1]
    message = f"'{name}' of the enclosing function is read before it has a value."
    return "sandbox.name_unbound", message, f"Assign '{name}' before calling the inner function."


def _explain_no_module(found: re.Match[str], around: ExceptionContext) -> tuple[str, str, str]:
    module = found[1]
    top = module.partition(".")[0]
    if top in IMAGE_MODULES and top != module:
        message = f"'{top}' has no module '{module}'."
        return (
            "sandbox.import_missing",
            message,
            f"Look up the modules of '{top}', and import the name from the right one.",
        )
    asked = (
        "listed in requires" if top in map(guess_module, around.required) else "not listed in requires either"
    )
    known = f" ({asked})" if around.required else ""
    message = f"The image has no module '{top}'{known}; it offers {around.offer}."
    return "sandbox.module_missing", message, f"Use {describe_replacement(top)} instead of '{top}'."


def guess_module(distribution: str) -> str:
    """Return the module that a distribution probably contains. By default, it has the same name."""
    name = distribution.partition(".")[0].replace("-", "_")
    return _MODULE_BY_PACKAGE.get(name.lower(), name)


def describe_replacement(module: str) -> str:
    """Return the replacement for a missing module: a known one, a similar name, or a general phrase."""
    if module in _STDLIB_BY_MODULE:
        return _STDLIB_BY_MODULE[module]
    public = sorted(name for name in IMAGE_MODULES if not name.startswith("_"))
    close = find_close_names(module, public)
    return f"'{close[0]}', if you meant that," if close else "an equivalent in the standard library"


def _explain_no_name(found: re.Match[str], around: ExceptionContext) -> tuple[str, str, str]:
    name, module = found[1], found[2]
    message = f"The module '{module}' has no '{name}'."
    home = _find_current_module(name)
    remedy = (
        f"Write: from {home} import {name}"
        if home is not None and home != module
        else f"Check the spelling of '{name}', or import it from the module that has it."
    )
    return "sandbox.import_missing", message, remedy


def _find_current_module(name: str) -> str | None:
    """Return the module that now contains a name, e.g. `collections.abc` for Mapping, or None if unknown."""
    return next((module for module, names in _NAMES_BY_MODULE.items() if name in names), None)


_NAME = r"'([^']{1,200})'"
_Explain = Callable[[re.Match[str], ExceptionContext], tuple[str, str, str]]
_EXPLANATIONS: tuple[tuple[str, re.Pattern[str], _Explain], ...] = (
    ("NameError", re.compile(rf"name {_NAME} is not defined"), _explain_undefined_name),
    (
        "NameError",
        re.compile(rf"cannot access free variable {_NAME} where .* in enclosing scope"),
        _explain_free_variable,
    ),
    (
        "UnboundLocalError",
        re.compile(rf"cannot access local variable {_NAME} where it is not associated with a value"),
        _explain_unbound_local,
    ),
    (
        "ModuleNotFoundError",
        re.compile(rf"No module named {_NAME}(?:; .* is not a package)?"),
        _explain_no_module,
    ),
    ("ImportError", re.compile(rf"cannot import name {_NAME} from {_NAME}(?: \(.*\))?"), _explain_no_name),
)
