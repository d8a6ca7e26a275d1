"""`python`: run a source in a namespace, and return the values of some names.

Arguments: source, filename, namespace, results, builtins; `tagged`: whether values that JSON can't express
are passed as tagged values; `as_script`: whether the text ends like a program; `modules`: submitted files
that the text can import; `again`: the number of further runs, for warnings. Record: see
docs/guest-protocol.md.
"""

from __future__ import annotations

import sys
from functools import partial
from os import getcwd, write
from time import process_time

from .. import builtin_names
from ..failures import ShownText, build_compile_error_record, get_exception_message, told
from ..substitutes import suppress
from ..tagged import render_tagged, restore_tagged
from ..values import is_real_subclass, render
from . import get_argument, read_text
from ._again import repeat_calls
from ._modules import compile_unchanged, read_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    from ..failures import Texts
    from ..reporter import Record
    from . import Context, SubmittedText

builtin_names.isolate_builtins(globals())

IN_PYTHON = True
_MODULE = "__main__"
_EXIT_FAILURE = 1
_get_exit_code = SystemExit.__dict__["code"].__get__


def run(arguments: Mapping[str, object], context: Context) -> Record:
    """Run the source, and return the record with the values of the requested names.

    If the source doesn't compile or raises, return a record of that.
    """
    text = read_text(arguments)
    namespace = get_argument(arguments, "namespace", dict)
    wanted: list[str] = get_argument(arguments, "results", list)
    tagged, as_script = arguments.get("tagged") is True, arguments.get("as_script") is True
    texts = {text.filename: ShownText(text.filename, text.source)}
    if "modules" in arguments:
        modules = read_modules(arguments)
        texts |= modules.texts
        context.policy.block_os_exit()
        modules.offer(context.policy, compile_unchanged)
    if tagged:
        namespace = {name: restore_tagged(value) for name, value in namespace.items()}
    module = text.module(_MODULE, context.policy, namespace)
    if as_script:
        sys.path.insert(0, getcwd())
        # A site module would add these, but the interpreter runs without one.
        module.__dict__["__builtins__"] |= {"exit": sys.exit, "quit": sys.exit}
    try:
        code = text.compile()
    except BaseException as problem:  # noqa: BLE001 - the compiler may run out of stack or memory
        return build_compile_error_record(problem)
    began_s = process_time()
    try:
        exec(code, module.__dict__)  # noqa: S102 - this is what the container is for
    except BaseException as problem:  # noqa: BLE001 - guest code, which may raise whatever it likes
        return (
            _build_failed_script_record(problem, texts)
            if as_script
            else _build_exception_record(problem, texts)
        )
    spent_s = process_time() - began_s
    record = {"status": "returned", **_build_result_record(module.__dict__, wanted, tagged)}
    if "again" in arguments:
        runs = get_argument(arguments, "again", int)
        tries = [partial(_run_again, text, code, arguments, context) for _ in range(runs)]
        form = render_tagged if tagged else render
        record["again"] = repeat_calls(record["values"], spent_s, tries, context.reporter, form)
    return {**record, "exit_code": 0} if as_script else record


def _run_again(
    text: SubmittedText, code: CodeType, arguments: Mapping[str, object], context: Context
) -> object:
    """Run the text again in a new namespace, and return the first of the requested values, or None."""
    given = get_argument(arguments, "namespace", dict)
    tagged = arguments.get("tagged") is True
    namespace = {name: restore_tagged(value) if tagged else value for name, value in given.items()}
    module = text.module(_MODULE, context.policy, namespace)
    exec(code, module.__dict__)  # noqa: S102 - this is what the container is for
    return module.__dict__.get(get_argument(arguments, "results", list)[0])


def _build_result_record(names: Mapping[str, object], wanted: list[str], tagged: bool) -> Record:
    values: dict[str, object] = {}
    for name in wanted:
        if name in names:
            found = (render_tagged if tagged else render)(names[name])
            values[name] = {
                "value": found.value,
                "value_type": found.value_type,
                "notes": found.notes,
                "complete": found.complete,
            }
    return {"values": values, "missing": [name for name in wanted if name not in names]}


def _build_exception_record(problem: BaseException, texts: Texts) -> Record:
    return {"status": "raised", **told(problem, texts), "phase": "call"}


def _build_failed_script_record(problem: BaseException, texts: Texts) -> Record:
    """Return the record of a script's exception, and print its traceback to stderr.

    For SystemExit, return the exit code instead.
    """
    if is_real_subclass(problem, SystemExit):
        return {"status": "exited", "exit_code": _determine_exit_code(problem)}
    record = _build_exception_record(problem, texts)
    _write_stderr(f"{record['traceback']}")
    return {**record, "exit_code": _EXIT_FAILURE}


def _determine_exit_code(problem: SystemExit) -> int:
    """Return the exit status for ``sys.exit()`` with a number, None, or a message, which is printed."""
    code = _get_exit_code(problem)
    if code is None:
        return 0
    if is_real_subclass(code, int):
        return int.__index__(code) & 0xFF
    _write_stderr(get_exception_message(problem))
    return _EXIT_FAILURE


def _write_stderr(text: str) -> None:
    with suppress(OSError):  # it may have closed its standard error
        write(2, f"{text}\n".encode())
