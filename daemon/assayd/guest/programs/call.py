"""`call`: compile a source, run it as a module, call one of its functions, and return the value.

Arguments: source, filename, function, args, kwargs, builtins; `names`: the names of each module that code
with safe built-ins can access by a computed name; `again`: arguments of further calls, for warnings;
`each`: arguments of many calls in one process, instead of `args`; an exception ends only the call that
raised it. Record: see docs/guest-protocol.md.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter, process_time

from .. import builtin_names
from ..failures import ShownText, build_compile_error_record, build_exception_record, told
from ..values import is_real_subclass, render
from . import get_argument, read_text
from ._again import repeat_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import CodeType

    from ..reporter import Record
    from . import Context, SubmittedText
    from ._again import Try

builtin_names.isolate_builtins(globals())

_MESSAGE_CHARS = 400
_ERROR_FIELDS = ("error_type", "line")


def run_each_call(
    function: Callable[..., object], calls: Sequence[Sequence[object]], text: SubmittedText
) -> list[Record]:
    """Return the result of each call in order: a value with its type, or an exception."""
    return [_run_call(function, args, text) for args in calls]


def _run_call(function: Callable[..., object], args: Sequence[object], text: SubmittedText) -> Record:
    try:
        value = function(*args)
    except BaseException as problem:  # noqa: BLE001 - guest code, which may raise whatever it likes
        raised = told(problem, {text.filename: ShownText(text.filename, text.source)})
        return {
            **{name: raised[name] for name in _ERROR_FIELDS},
            "message": str(raised["message"])[:_MESSAGE_CHARS],
        }
    found = render(value)
    return {"value": found.value, "value_type": found.value_type}


IN_PYTHON = True
_MODULE = "submission"


def run(arguments: Mapping[str, object], context: Context) -> Record:
    """Compile and run the source, call the function, and return the record of its result.

    If the source doesn't compile, doesn't define the function or raises, return a record of that.
    """
    text = read_text(arguments)
    name = get_argument(arguments, "function", str)
    args, kwargs = get_argument(arguments, "args", list), get_argument(arguments, "kwargs", dict)
    if text.builtins == "safe":
        listed = get_argument(arguments, "names", dict) if "names" in arguments else {}
        context.policy.attributes.set_allowed_names(
            {name: frozenset(names) for name, names in listed.items()}
        )
        if "Formatter" in text.source:
            context.policy.attributes.guard_formatter()
    module = text.module(_MODULE, context.policy, {})
    try:
        code = text.compile()
    except BaseException as problem:  # noqa: BLE001 - the compiler may run out of stack or memory
        return build_compile_error_record(problem)
    phase = "import"
    try:
        exec(code, module.__dict__)  # noqa: S102 - this is what the container is for
        function = module.__dict__.get(name)
        if not callable(function):
            return {"status": "no_function"}
        if "each" in arguments:
            return {
                "status": "returned",
                "each": run_each_call(function, get_argument(arguments, "each", list), text),
            }
        phase = "call"
        began_s, started = process_time(), perf_counter()
        value = function(*args, **kwargs)
        duration_s, spent_s = perf_counter() - started, process_time() - began_s
    except BaseException as problem:  # noqa: BLE001 - guest code, which may raise whatever it likes
        return build_exception_record(problem, filename=text.filename, source=text.source, phase=phase)
    found = render(value)
    record = {
        "status": "returned",
        "value": found.value,
        "value_type": found.value_type,
        "notes": found.notes,
        "duration_s": duration_s,
    }
    if "again" in arguments:
        tries = _iter_further_calls(text, code, name, get_argument(arguments, "again", list), context)
        record["again"] = repeat_calls(found.value, spent_s, tries, context.reporter)
    return record


def _iter_further_calls(
    text: SubmittedText, code: CodeType, name: str, calls: list[list[object]], context: Context
) -> Iterator[Try]:
    """Yield further calls from a second module, in which values of the import are created again."""
    module = text.module(_MODULE, context.policy, {})
    exec(code, module.__dict__)  # noqa: S102 - this is what the container is for
    for args in calls:
        yield partial(_call_and_convert_dict, module.__dict__[name], args)


def _call_and_convert_dict(function: Callable[..., object], args: list[object]) -> object:
    value = function(*args)
    return value if is_real_subclass(value, dict) else None
