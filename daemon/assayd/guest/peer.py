"""The connection between a solution and its tests, and the solution's process, which handles their requests.

Since each end waits for its peer, messages alternate. Before an end responds, it can send requests (e.g. to
call a function of the tests that was passed as an argument). Messages are JSON, sent in frames. Neither end
runs, imports or unpickles any data from its peer.

The solution's process imports the code, then handles the tests' requests, one call at a time. It contains
only the code and the arguments of the current call. Other processes decide whether its responses are correct.
"""

from __future__ import annotations

import sys
from os import read, write

from . import builtin_names, substitutes
from .failures import ShownText, clean_text, told
from .frames import FrameDecoder, encode_frame, split_into_bodies
from .substitutes import suppress
from .transfer import MessageDecoder, MessageEncoder, TransferError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType
    from typing import Any, TypeGuard

    from .failures import Texts
    from .frames import Header
    from .policy import RuntimePolicy
    from .transfer import Classes, Form

builtin_names.isolate_builtins(globals())


MAX_BYTES = 8 * 2**20
"""Maximum bytes of one message."""
_READ_BYTES = 64 * 1024
_MAX_NESTING = 50

Raised = dict[str, object]

MODULE = "solution"
CODE, CONTEXT = "solution.py", "context.py"
_MAX_OFFERED_NAMES = 500
_MAX_BASES = 20
CONVERTED_EXCEPTIONS = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt)
"""Exceptions that would silently end a loop, a generator or the whole test run.

The tests get a RuntimeError instead.
"""
_ITERATION_METHODS = frozenset({"__next__", "send", "throw"})

_BUILT_IN = (str, int, float, tuple, list, dict, set, frozenset, bytes)

_mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_get_qualname: Callable[[type], object] = type.__dict__["__qualname__"].__get__


class PeerExitedError(Exception):
    """An exception raised when the peer has exited. The message is the reason."""


class InvalidPeerMessageError(Exception):
    """An exception raised when the peer sent an invalid message, or when a value can't be transferred."""


class RemoteException(Exception):
    """An exception raised when the peer's code raised an exception.

    `told` describes that exception; `values` contains its arguments, or None if they can't be transferred.
    """

    def __init__(self, told: Raised, args: object) -> None:
        self.told, self.values = told, args


class Peer:
    """One end of the connection between a solution and its tests.

    Args:
        reading: the descriptor from which the peer's messages are read.
        writing: the descriptor to which messages to the peer are written.
        represent: creates the proxy for a value of the peer, from ``[number, kind, names]``.
        describe: returns kind and names of a value that isn't transferred; the flag tells whether the value
            already has a number.
        perform: performs a request of the peer, ``(operation, value, name, args, kwargs)``.
        explain: describes an exception of this end.
    """

    def __init__(
        self,
        reading: int,
        writing: int,
        *,
        represent: Callable[[Peer, int, str, list[str]], object],
        describe: Callable[[object, bool], tuple[str, list[str]] | None],
        perform: Callable[[str, object, str, list[object], dict[str, object]], object],
        explain: Callable[[BaseException, str, str], Raised],
    ) -> None:
        self._reading, self._writing = reading, writing
        self._represent, self._describe = represent, describe
        self._perform, self._explain = perform, explain
        self._decoder = FrameDecoder()
        self._waiting: list[tuple[Header, bytes]] = []
        self.classes: Classes = {}
        self.kept: list[object] = []
        self._numbers: dict[int, int] = {}
        self._theirs: dict[int, object] = {}
        self._their_numbers: dict[int, int] = {}
        self._deep = 0

    def keep(self, value: object) -> int:
        """Keep a value, and return the number by which the peer can refer to it."""
        number = self._numbers.setdefault(id(value), len(self.kept))
        if number == len(self.kept):
            self.kept.append(value)
        return number

    def register_proxy_object(self, number: int, value: object) -> None:
        """Store the proxy for the peer's value with this number."""
        self._theirs[number] = value
        self._their_numbers[id(value)] = number

    def ask(
        self, operation: str, number: int, name: str, args: Iterable[object], kwargs: Mapping[str, object]
    ) -> object:
        """Send a request, handle the peer's requests until the response arrives, and return the result.

        Raises: RemoteException, if the peer's code raises an exception; PeerExitedError;
        InvalidPeerMessageError; TransferError, if an argument can't be transferred.
        """
        outgoing = MessageEncoder(self._to_handle, self.classes)
        given = [outgoing.form(list(args)), outgoing.form(dict(kwargs))]
        nodes = outgoing.nodes(0)
        self.send("ask", [operation, number, name, given, nodes])
        kind, answer = self.receive()
        while kind == "ask":
            self.answer(answer)
            kind, answer = self.receive()
        return self._read_result(kind, answer, outgoing.objects)

    def answer(self, asked: object) -> None:
        """Perform a request of the peer. Raises: InvalidPeerMessageError, PeerExitedError."""
        operation, number, name, given, nodes = _require_list_of_length(asked, 5)
        incoming = MessageDecoder(self._from_handle, self.classes)
        try:
            incoming.add(_require_list(nodes))
            args, kwargs = (incoming.value(form) for form in _require_list_of_length(given, 2))
        except TransferError as problem:
            raise InvalidPeerMessageError(str(problem)) from None
        if type(args) is not list or type(kwargs) is not dict or not _is_index(number, self.kept):
            raise InvalidPeerMessageError("a call of nothing")
        asked_of = self.kept[number]
        value, raised = self._perform_request(str(operation), asked_of, str(name), args, kwargs)
        self._send_answer(value, raised, incoming.objects, _require_list(nodes), (str(operation), str(name)))

    def send(self, kind: str, content: object) -> None:
        """Send a message. Raises: TransferError, if its content can't be transferred; PeerExitedError."""
        try:
            body = substitutes.serialize_json(content)
        except (TypeError, ValueError, RecursionError) as problem:
            raise TransferError(f"a value can't be transferred: {problem}") from None
        if len(body) > MAX_BYTES:
            raise TransferError(f"a value of {len(body)} bytes is too large to be transferred")
        parts = list(split_into_bodies(body))
        for number, part in enumerate(parts, 1):
            rest = memoryview(encode_frame({"type": kind, "more": number < len(parts)}, part))
            try:
                while rest:
                    rest = rest[write(self._writing, rest) :]
            except BrokenPipeError:
                raise PeerExitedError("it has ended") from None

    def receive(self) -> tuple[str, object]:
        """Return the next message: kind, content. Raises: PeerExitedError, InvalidPeerMessageError."""
        kind, body = "", bytearray()
        while True:
            header, part = self._read_frame()
            if header["type"] == "ended":  # sent by the runner, perhaps in the middle of a message
                raise PeerExitedError(str(substitutes.loads(part)))
            body += part
            if len(body) > MAX_BYTES or (kind and header["type"] != kind):
                raise InvalidPeerMessageError("a message that is too large, or mixed up")
            kind = str(header["type"])
            if header.get("more") is not True:
                break
        try:
            content = substitutes.loads(body)
        except (ValueError, RecursionError):
            raise InvalidPeerMessageError("a message that isn't JSON") from None
        return kind, content

    def _read_frame(self) -> tuple[Header, bytes]:
        while not self._waiting:
            content = read(self._reading, _READ_BYTES)
            if not content:
                raise PeerExitedError("it has ended")
            self._waiting = list(self._decoder.feed(content))
        return self._waiting.pop(0)

    def _to_handle(self, value: object) -> Form:
        if (number := self._their_numbers.get(id(value))) is not None:
            return ["m", number]
        described = self._describe(value, id(value) in self._numbers)
        return None if described is None else ["h", self.keep(value), *described]

    def _from_handle(self, form: list[Form]) -> object:
        if form[0] == "m":
            if not _is_index(form[1], self.kept):
                raise ValueError("a handle of nothing")
            return self.kept[form[1]]
        number, kind, names = form[1], form[2], form[3]
        if type(number) is not int or type(kind) is not str or type(names) is not list:
            raise ValueError("no handle")
        if number not in self._theirs:
            found = self._represent(self, number, kind, [name for name in names if type(name) is str])
            self.register_proxy_object(number, found)
        return self._theirs[number]

    def _perform_request(
        self, operation: str, value: object, name: str, args: list[object], kwargs: dict[str, object]
    ) -> tuple[object, Raised | None]:
        self._deep += 1
        try:
            _check_depth(self._deep)
            made = self._perform(operation, value, name, args, kwargs)
            if operation == "call" and issubclass(type(value), type) and type(made) is value:
                self.keep(made)  # a requested instance stays an instance, whatever its base class
            return made, None
        except (PeerExitedError, InvalidPeerMessageError):
            raise
        except BaseException as problem:  # noqa: BLE001 - foreign code, which may raise whatever it likes
            return None, self._explain(problem, operation, name)
        finally:
            self._deep -= 1

    def _send_answer(
        self,
        value: object,
        raised: Raised | None,
        objects: list[object],
        nodes: list[Form],
        asked: tuple[str, str],
    ) -> None:
        """Send a value or an exception, together with the arguments changed by the call.

        If the value can't be transferred, send the reason instead.
        """
        outgoing = MessageEncoder(self._to_handle, self.classes, objects)
        start = len(objects)
        try:
            form = None if raised is not None else outgoing.form(value)
            after = [outgoing.node(one) for one in objects]
            changes = [[at, node] for at, node in enumerate(after) if node != nodes[at]]
            self.send("answer", [form, outgoing.nodes(start), changes, raised])
        except TransferError as problem:
            self.send("answer", [None, [], [], {"untransferable": str(problem)}])
        except BaseException as problem:  # noqa: BLE001 - code of foreign classes may have a part in it
            self.send("answer", [None, [], [], self._explain(problem, *asked)])

    def _read_result(self, kind: str, answer: object, objects: list[object]) -> object:
        if kind != "answer":
            raise InvalidPeerMessageError(f"a message {kind[:20]!r} in the place of an answer")
        form, nodes, changes, raised = _require_list_of_length(answer, 4)
        incoming = MessageDecoder(self._from_handle, self.classes, objects)
        try:
            incoming.add(_require_list(nodes))
            value = incoming.value(form)
            incoming.update(changes)
            if raised is not None:
                told = raised if type(raised) is dict else {}
                raise RemoteException(told, self._exception_arguments(told))
        except TransferError as problem:
            raise InvalidPeerMessageError(str(problem)) from None
        return value

    def _exception_arguments(self, told: Raised) -> object:
        form = told.get("args")
        with suppress(TransferError):
            return None if form is None else MessageDecoder(self._from_handle, self.classes).value(form)
        return None


def _check_depth(deep: int) -> None:
    if deep > _MAX_NESTING:
        raise RecursionError("calls between tests and solution are nested too deeply")


def _require_list_of_length(content: object, count: int) -> list[object]:
    if type(content) is not list or len(content) != count:
        raise InvalidPeerMessageError("a message of another form")
    return content


def _require_list(content: object) -> list[object]:
    if type(content) is not list:
        raise InvalidPeerMessageError("a message of another form")
    return content


def _is_index(number: object, of: list[object]) -> TypeGuard[int]:
    return type(number) is int and 0 <= number < len(of)


def serve_solution(document: Mapping[str, object], policy: RuntimePolicy, reading: int, writing: int) -> None:
    """Import the solution, send the names that it defines, and handle requests until the tests are done.

    If the import fails, send the exception and return.
    """
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
        except (PeerExitedError, InvalidPeerMessageError):
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
    """Return the entry point and the public functions and classes of the module, each with a number."""
    offered: list[object] = []
    for name, value in list(module.__dict__.items()):
        described = _describe_value(value) if type(name) is str else None
        public = name == entry or (name[:1] != "_" and len(offered) < _MAX_OFFERED_NAMES)
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
    return [name[:100] for kind in kinds[:_MAX_BASES] if type(name := _get_qualname(kind)) is str]


def _make_callback(peer: Peer, number: int, _: str, names: list[str]) -> Callable[..., object]:
    """Return a function that calls one function of the tests."""

    def call(*args: object, **kwargs: object) -> object:
        return peer.ask("call", number, "", args, kwargs)

    call.__name__ = call.__qualname__ = names[0] if names else "callback"
    return call


def _describe_exception(problem: BaseException, operation: str, name: str, texts: Texts) -> Raised:
    """Return the description of an exception as its nearest built-in type. The text is only for display."""
    kind = type(problem)
    silent = issubclass(kind, CONVERTED_EXCEPTIONS) and not (
        kind is StopIteration and (operation in _ITERATION_METHODS or name in _ITERATION_METHODS)
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
    """Perform one operation on one of the solution's values, and return its result.

    Raises: InvalidPeerMessageError, if the operation doesn't exist.
    """
    if operation not in _HANDLER_BY_OPERATION:
        raise InvalidPeerMessageError("an operation that doesn't exist")
    return _HANDLER_BY_OPERATION[operation](value, name, args, kwargs)


def _call_special_method(value: object, name: str, args: list[object], _: object) -> object:
    return (
        _FUNCTION_BY_NAME[name](value, *args)
        if name in _FUNCTION_BY_NAME
        else getattr(type(value), name)(value, *args)
    )


def _await_value(value: Any, _name: str, _args: object, _kwargs: object) -> object:
    import asyncio

    return asyncio.run(value)


_HANDLER_BY_OPERATION: Mapping[str, Callable[[Any, str, Any, Any], object]] = {
    "call": lambda value, _, args, kwargs: value(*args, **kwargs),
    "get": lambda value, name, _args, _kwargs: getattr(value, name),
    "set": lambda value, name, args, _: setattr(value, name, args[0]),
    "delete": lambda value, name, _args, _kwargs: delattr(value, name),
    "await": _await_value,
    "special": _call_special_method,
}
_FUNCTION_BY_NAME: Mapping[str, Callable[..., object]] = {
    "__len__": len,
    "__iter__": iter,
    "__next__": next,
    "__bool__": bool,
    "__str__": str,
    "__repr__": repr,
    "__getitem__": lambda value, key: value[key],
}
