"""Runs the solution's process: imports the code, then handles the tests' requests, one call at a time.

The process contains only the code and the arguments of the current call. Other processes decide whether its
responses are correct.
"""

from __future__ import annotations

import sys

from . import builtin_names
from .failures import ShownText, clean_text, told
from .peer import InvalidPeerMessage, Peer, PeerExitedError
from .transfer import MessageEncoder, TransferError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

    from .failures import Texts
    from .peer import Raised
    from .policy import RuntimePolicy

builtin_names.isolate_builtins(globals())

MODULE = "solution"
CODE, CONTEXT = "solution.py", "context.py"
_MAX_NAMES = 500
_MAX_BASES = 20
NOT_RAISED = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt)
"""Would end a loop, a generator or the whole run of the tests in silence, so they arrive as RuntimeError."""
_STOPPING = frozenset({"__next__", "send", "throw"})

_BUILT_IN = (str, int, float, tuple, list, dict, set, frozenset, bytes)

_mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_qualname: Callable[[type], object] = type.__dict__["__qualname__"].__get__


def serve_solution(document: Mapping[str, object], policy: RuntimePolicy, reading: int, writing: int) -> None:
    """Import the solution, send the names that it defines, and handle requests until the tests are done."""
    code, context, entry = (str(document[name]) for name in ("code", "context", "entry_point"))
    texts = {CODE: ShownText(CODE, code), CONTEXT: ShownText(CONTEXT, context)}
    peer = Peer(
        reading,
        writing,
        represent=_make_callback,
        describe=_describe_value,
        perform=perform_operation,
        explain=lambda problem, operation, name: _describe_exception(problem, operation, name, texts),
    )
    try:
        module = _load_module(code, context, policy, peer)
    except BaseException as problem:  # noqa: BLE001 - guest code, which may raise whatever it likes
        peer.send("broken", told(problem, texts))
        return
    peer.send("ready", _number_definitions(module, entry, peer))
    while True:
        try:
            _, asked = peer.receive()
            peer.answer(asked)
        except (PeerExitedError, InvalidPeerMessage):
            return


def _load_module(code: str, context: str, policy: RuntimePolicy, peer: Peer) -> ModuleType:
    module = type(sys)(MODULE)
    names = module.__dict__
    names["__builtins__"] = policy.builtins("full", CODE)
    policy.builtins("full", CONTEXT)
    names["__file__"] = CODE
    sys.modules[MODULE] = module
    sys.argv = [CODE]
    exec(compile(context, CONTEXT, "exec", dont_inherit=True), names)  # noqa: S102 - what the container is for
    peer.classes = find_own_classes(names)
    exec(compile(code, CODE, "exec", dont_inherit=True), names)  # noqa: S102 - what the container is for
    return module


def find_own_classes(names: Mapping[str, object]) -> dict[str, type]:
    """Return the plain classes that a context defines, whose instances are passed as copies."""
    return {
        name: value
        for name, value in names.items()
        if type(value) is type
        and value.__module__ == names.get("__name__", MODULE)
        and "__slots__" not in value.__dict__
        and _mro(value)[1:] == (object,)
    }


def _number_definitions(module: ModuleType, entry: str, peer: Peer) -> list[object]:
    """Return the functions and classes that the module defines, each with a number."""
    offered: list[object] = []
    for name, value in list(module.__dict__.items()):
        described = _describe_value(value) if type(name) is str else None
        public = name == entry or (name[:1] != "_" and len(offered) < _MAX_NAMES)
        if not public or described is None or described[0] not in {"function", "class"}:
            continue
        if type(value) is type(sys) or (name != entry and value in peer.classes.values()):
            continue
        offered.append([name, peer.keep(value), *described])
    return offered


def _describe_value(value: Any, kept: bool = False) -> tuple[str, list[str]] | None:
    kind: type = type(value)
    if issubclass(kind, _BUILT_IN) and not kept:
        return None  # is sent as its built-in part
    if issubclass(kind, type):
        return "class", _list_qualified_names(_mro(value))
    if kind.__name__ == "coroutine":
        return "coroutine", []
    if kind.__name__ in {"function", "method", "builtin_function_or_method", "_lru_cache_wrapper", "partial"}:
        return "function", [str(getattr(value, "__name__", ""))[:100]]
    return "object", _list_qualified_names(_mro(kind))


def _list_qualified_names(kinds: tuple[type, ...]) -> list[str]:
    return [name[:100] for kind in kinds[:_MAX_BASES] if type(name := _qualname(kind)) is str]


def _make_callback(peer: Peer, number: int, _: str, names: list[str]) -> Callable[..., object]:
    """Return a function that calls one function of the tests."""

    def call(*args: object, **kwargs: object) -> object:
        return peer.ask("call", number, "", args, kwargs)

    call.__name__ = call.__qualname__ = names[0] if names else "callback"
    return call


def _describe_exception(problem: BaseException, operation: str, name: str, texts: Texts) -> Raised:
    """Return the description of an exception as its nearest built-in type. The text is only for display."""
    kind = type(problem)
    silent = issubclass(kind, NOT_RAISED) and not (
        kind is StopIteration and (operation in _STOPPING or name in _STOPPING)
    )
    base: type[BaseException] = next(
        one for one in _mro(kind) if builtin_names.NAMES.get(one.__name__) is one
    )
    if silent or not issubclass(base, (Exception, SystemExit)):
        base = RuntimeError
    described = told(problem, texts)
    shown = f"{described['error_type']}: {described['message']}" if silent else described["message"]
    raised: Raised = {
        "type": base.__name__,
        "names": _list_qualified_names(_mro(kind)),
        "message": clean_text(str(shown)),
        "told": described,
    }
    if not silent and kind is base:
        try:
            raised["args"] = MessageEncoder(_refuse_value, {}).form(
                BaseException.__dict__["args"].__get__(problem)
            )
        except TransferError:
            return raised
    return raised


def _refuse_value(_: object) -> None:
    raise TransferError("not a plain value")


def perform_operation(
    operation: str, value: object, name: str, args: list[object], kwargs: dict[str, object]
) -> object:
    """Perform one operation on one of the solution's values."""
    if operation not in _OPERATIONS:
        raise InvalidPeerMessage("an operation that doesn't exist")
    return _OPERATIONS[operation](value, name, args, kwargs)


def _call_special_method(value: object, name: str, args: list[object], _: object) -> object:
    return _SPECIAL[name](value, *args) if name in _SPECIAL else getattr(type(value), name)(value, *args)


def _await_value(value: Any, _name: str, _args: object, _kwargs: object) -> object:
    import asyncio

    return asyncio.run(value)


_OPERATIONS: Mapping[str, Callable[[Any, str, Any, Any], object]] = {
    "call": lambda value, _, args, kwargs: value(*args, **kwargs),
    "get": lambda value, name, _args, _kwargs: getattr(value, name),
    "set": lambda value, name, args, _: setattr(value, name, args[0]),
    "delete": lambda value, name, _args, _kwargs: delattr(value, name),
    "await": _await_value,
    "special": _call_special_method,
}
_SPECIAL: Mapping[str, Callable[..., object]] = {
    "__len__": len,
    "__iter__": iter,
    "__next__": next,
    "__bool__": bool,
    "__str__": str,
    "__repr__": repr,
    "__getitem__": lambda value, key: value[key],
}
