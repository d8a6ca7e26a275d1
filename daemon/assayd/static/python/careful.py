"""The security scan's rules on functions of allowed modules that may be used in one form only.

They are written in C or by others, so that nothing can judge what they are given when they run.

    operator.attrgetter(name)               attribute.dynamic       (good: attrgetter("year"))
    operator.methodcaller(name)             attribute.dynamic       (good: methodcaller("strip"))
    functools.wraps(f, ("__globals__",))    attribute.dynamic       (good: wraps(f))
    logging.basicConfig(filename="x")       attribute.file_access   (good: basicConfig(level=logging.INFO))
    c = warnings.catch_warnings()           attribute.internal      (good: with warnings.catch_warnings(): …)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from assayd.model.finding import Finding
from assayd.static.python.attributes import refused_attribute
from assayd.static.python.scopes import NodeSite
from assayd.static.python.view import View

_Words = tuple[str, str, str]
_OPENING = frozenset({"filename", "filemode", "encoding", "errors", "handlers"})


def check_careful(view: View, site: NodeSite) -> Iterator[Finding]:
    """``f = operator.attrgetter`` -> attribute.dynamic."""
    node = site.node
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    for dotted in sorted(view.dotted(node, site.scope) & _FORMS.keys()):
        if not view.restricts(dotted.rpartition(".")[0]):
            continue
        parent = site.parent
        call = parent if isinstance(parent, ast.Call) and parent.func is node else None
        refused = _FORMS[dotted](view, call)
        if refused is not None:
            yield view.error(node, *refused)


def _asks_names(form: str) -> Callable[[View, ast.Call | None], _Words | None]:
    """Judge a call whose names must stand in plain text; `form` is how it is written."""

    def judge(view: View, call: ast.Call | None) -> _Words | None:
        words = (
            "attribute.dynamic",
            f"{form} is used with a name that is computed.",
            f'Write {form}("name").',
        )
        if call is None or not call.args:
            return words
        names = call.args[:1] if form == "methodcaller" else call.args
        for name in names:
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                return words
            for part in name.value.split("."):
                refused = refused_attribute(part, view.uses_paths, view.own)
                if refused is not None:
                    return refused
        return None

    return judge


def _wraps(_: View, call: ast.Call | None) -> _Words | None:
    plain = call is not None and len(call.args) == 1 and not call.keywords
    if plain and not isinstance(call.args[0], ast.Starred):  # type: ignore[union-attr]  # it is there when plain
        return None
    message = "functools.wraps is used in another way than with the one function that is wrapped."
    return "attribute.dynamic", message, "Write @functools.wraps(function)."


def _configures(_: View, call: ast.Call | None) -> _Words | None:
    if call is not None and not call.args and all(k.arg not in {None, *_OPENING} for k in call.keywords):
        return None
    message = "logging.basicConfig may be given plain settings only; it opens files."
    return "attribute.file_access", message, "Write logging.basicConfig(level=logging.INFO, format=…)."


def _in_with(view: View, call: ast.Call | None) -> _Words | None:
    """Its object holds the module of warnings; what ``with`` gives does not."""
    if call is not None and isinstance(view.tree.parent(call), ast.withitem):
        return None
    message = "warnings.catch_warnings is used in another way than in a with statement."
    return "attribute.internal", message, "Write: with warnings.catch_warnings(): …"


_FORMS: Mapping[str, Callable[[View, ast.Call | None], _Words | None]] = {
    "functools.wraps": _wraps,
    "logging.basicConfig": _configures,
    "operator.attrgetter": _asks_names("attrgetter"),
    "operator.methodcaller": _asks_names("methodcaller"),
    "warnings.catch_warnings": _in_with,
}
