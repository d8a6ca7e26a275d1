"""`python`: run a text in a namespace and give back the values of some of its names.

Arguments: source, filename, namespace, results, builtins; where the text is to import submitted files, also
modules. Record: see docs/guest-protocol.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import private
from ..failures import Shown, not_compiled, told
from ..reporter import Record
from ..values import render
from . import Context
from ._modules import plainly, read_modules
from ._text import argument, read_text

private.isolate(globals())

IN_PYTHON = True
_MODULE = "__main__"


def run(arguments: Mapping[str, object], context: Context) -> Record:
    """Run the program in this process."""
    text = read_text(arguments)
    namespace = argument(arguments, "namespace", dict)
    wanted = argument(arguments, "results", list)
    texts = {text.filename: Shown(text.filename, text.source)}
    if "modules" in arguments:
        modules = read_modules(arguments)
        texts |= modules.texts
        modules.offer(context.policy, plainly)
    module = text.module(_MODULE, context.policy, namespace)
    try:
        code = text.compile()
    except BaseException as problem:  # noqa: BLE001 - the compiler may run out of stack or memory
        return not_compiled(problem)
    try:
        exec(code, module.__dict__)  # noqa: S102 - this is what the container is for
    except BaseException as problem:  # noqa: BLE001 - guest code, which may raise whatever it likes
        return {"status": "raised", **told(problem, texts), "phase": "call"}
    return {"status": "returned", **_results(module.__dict__, wanted)}


def _results(names: Mapping[str, object], wanted: list[str]) -> Record:
    values: dict[str, object] = {}
    for name in wanted:
        if name in names:
            found = render(names[name])
            values[name] = {"value": found.value, "value_type": found.value_type, "notes": found.notes}
    return {"values": values, "missing": [name for name in wanted if name not in names]}
