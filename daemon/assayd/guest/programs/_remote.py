"""The solution as the tests see it: proxies that send requests to its process and don't compare values.

If tests compared an object of the solution, or computed with it, the solution would decide the outcome and
see the expected value. Therefore, both operations are refused, as are values that can't be transferred.
Each such fault makes the test fail, even if the test catches the exception.
"""

from __future__ import annotations

from .. import builtin_names
from ..peer import (
    CONVERTED_EXCEPTIONS,
    InvalidPeerMessageError,
    Peer,
    PeerExitedError,
    RemoteException,
    find_own_classes,
)
from ..transfer import TransferError
from ..values import type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from typing import Literal, TypeVar

    from ..peer import Raised

    _T = TypeVar("_T")

builtin_names.isolate_builtins(globals())

_MAX_ITEMS = 1_000_000
_SHOWN_CHARS = 200
_Function = type(find_own_classes)


class SolutionFault(Exception):
    """An exception raised when a request to the solution is impossible or fails. It makes the test fail."""


class SolutionClient:
    """The tests' connection to the process of the solution.

    `fault` is the first fault, or None, and `asked` is the number of requests to the solution.
    """

    def __init__(self, reading: int, writing: int, *, trusted: bool) -> None:
        self.fault: dict[str, object] | None = None
        self._last: tuple[object, str, object] | None = None
        self.raised: tuple[BaseException, object] | None = None
        self._trusted = trusted
        self._names: dict[str, type] = {}
        self._exceptions: dict[str, type[BaseException]] = {}
        self._items = 0
        self.asked = 0
        self._peer = Peer(
            reading,
            writing,
            represent=self._create_proxy,
            describe=_describe,
            perform=_perform_call,
            explain=_describe_exception,
        )

    def open(self) -> dict[str, object] | None:
        """Wait until the solution is imported. Return the reason if the import fails, otherwise None."""
        try:
            kind, content = self._peer.receive()
        except (PeerExitedError, InvalidPeerMessageError) as problem:
            self._record_fault("ended", str(problem))
            return {"status": "ended"}
        if kind == "ready" and type(content) is list:
            for name, number, form, names in content:
                self._add_export(name, number, form, names)
            return None
        return content if kind == "broken" and type(content) is dict else {"status": "raised"}

    def share(self, names: Mapping[str, object]) -> None:
        """Register a context's plain classes, so that their instances are transferred as copies."""
        self._peer.classes = find_own_classes(names)

    def find_proxy(self, name: str) -> object | None:
        """Return the proxy for a name of the solution, or None if no function or class has this name."""
        return self._names.get(name)

    def ask(
        self,
        operation: str,
        number: int,
        name: str,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Send a request to the solution, and return its result.

        Raises: the solution's exception, as a built-in type; SolutionFault, if the request fails.
        """
        self.asked += 1
        try:
            value = self._peer.ask(operation, number, name, args, kwargs or {})
        except RemoteException as remote:
            raise self._rebuild_exception(remote, operation, name, args) from None
        except PeerExitedError as problem:
            raise self._record_fault("ended", f"The solution's process has ended: {problem}") from None
        except InvalidPeerMessageError as problem:
            raise self._record_fault("protocol", f"The solution sent {problem}") from None
        except TransferError as problem:
            raise self._record_fault(
                "transfer", f"An argument can't be passed to the solution: {problem}"
            ) from None
        if operation == "call":
            self._last = args, "returned", value
        return value

    def describe_last_call(self) -> str:
        """Return the last call and its result as text. The result is empty if none was made."""
        if self._last is None:
            return ""
        args, how, value = self._last
        return f"{_render(args)} {how} {value if how == 'raised' else _render(value)}"

    def refuse(self, what: str) -> SolutionFault:
        """Record and return the fault for an operation whose result the solution would decide."""
        return self._record_fault(
            "trust",
            f"{what}: the solution would decide the outcome; compare plain values, or set trust_objects",
        )

    def build_misuse_error(self, what: str) -> SolutionFault:
        """Record and return the fault for a use of the solution that is impossible across processes."""
        return self._record_fault("transfer", what)

    def count(self) -> None:
        """Count an item of an iterator. Raises: SolutionFault, if there are too many."""
        self._items += 1
        if self._items > _MAX_ITEMS:
            raise self._record_fault("limit", f"The solution's iterators gave more than {_MAX_ITEMS} items")

    @property
    def trusted(self) -> bool:
        """Return whether objects of the solution may be compared by their own methods."""
        return self._trusted

    def _record_fault(self, kind: str, message: str) -> SolutionFault:
        if self.fault is None:
            self.fault = {"kind": kind, "message": message[:1000]}
        return SolutionFault(message)

    def _rebuild_exception(
        self, remote: RemoteException, operation: str, name: str, args: tuple[object, ...]
    ) -> BaseException:
        told: Raised = remote.told
        if type(told.get("untransferable")) is str:
            return self._record_fault(
                "transfer", f"The solution's value can't be used: {told['untransferable']}"
            )
        message, names = told.get("message"), told.get("names")
        own = (
            next((self._exceptions[n] for n in names if n in self._exceptions), None)
            if type(names) is list
            else None
        )
        named = told.get("type")
        base = builtin_names.NAMES.get(named) if type(named) is str else None
        kind = own or base
        if not (isinstance(kind, type) and issubclass(kind, (Exception, SystemExit))):
            kind = RuntimeError
        if issubclass(kind, CONVERTED_EXCEPTIONS) and not (kind is StopIteration and name == "__next__"):
            kind = RuntimeError
        problem = _create_exception(kind, remote.values, str(message)[:4096])
        if operation == "call":
            self._last = args, "raised", type_name(problem)
        self.raised = problem, told.get("told")
        return problem

    def _add_export(self, name: object, number: object, kind: object, names: object) -> None:
        if (
            type(name) is not str
            or type(number) is not int
            or type(kind) is not str
            or type(names) is not list
        ):
            return
        known = [one for one in names if type(one) is str]
        exception = next(
            (builtin_names.NAMES.get(one) for one in known if _is_exception(builtin_names.NAMES.get(one))),
            None,
        )
        if kind == "class" and exception is not None:
            self._names[name] = self._exceptions[name] = type(name, (exception,), {})
        elif kind == "class":
            self._names[name] = _create_class(self, name, number, self._find_known_bases(known[1:]))
            self._peer.register_proxy_object(number, self._names[name])
        else:
            self._names[name] = self._create_proxy(self._peer, number, kind, known)  # type: ignore[assignment]
            self._peer.register_proxy_object(number, self._names[name])

    def _find_known_bases(self, names: list[str]) -> tuple[type, ...]:
        return (
            next(
                (self._names[name] for name in names if isinstance(self._names.get(name), type)), RemoteObject
            ),
        )

    def _create_proxy(self, _: Peer, number: int, kind: str, names: list[str]) -> object:
        if kind == "coroutine":
            return self._await_remote(number)
        found = (self._names.get(name) for name in names) if kind == "object" else ()
        made = next(
            (one for one in found if isinstance(one, type) and issubclass(one, RemoteObject)), RemoteObject
        )
        remote = object.__new__(made)
        object.__setattr__(remote, "_assayd_solution", self)
        object.__setattr__(remote, "_assayd_number", number)
        object.__setattr__(remote, "_assayd_label", names[0] if names else kind)
        return remote

    async def _await_remote(self, number: int) -> object:
        return self.ask("await", number, "")


def _create_class(solution: SolutionClient, name: str, number: int, bases: tuple[type, ...]) -> type:
    kind = _RemoteClass(name, bases, {"__slots__": ()})
    type.__setattr__(kind, "_assayd_owner", solution)
    type.__setattr__(kind, "_assayd_at", number)
    return kind


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _ask_object(remote: object, operation: str, name: str, *args: object, **kwargs: object) -> object:
    solution: SolutionClient = object.__getattribute__(remote, "_assayd_solution")
    return solution.ask(operation, object.__getattribute__(remote, "_assayd_number"), name, args, kwargs)


def _ask_class(kind: _RemoteClass, operation: str, name: str, *args: object, **kwargs: object) -> object:
    solution: SolutionClient = type.__getattribute__(kind, "_assayd_owner")
    if "_assayd_at" not in type.__getattribute__(kind, "__dict__"):
        raise solution.build_misuse_error(
            "A class of the tests that inherits from one of the solution can't be used"
        )
    return solution.ask(operation, type.__getattribute__(kind, "_assayd_at"), name, args, kwargs)


class _RemoteClass(type):
    """A class of the solution. Calling it creates an instance in the solution's process."""

    _assayd_owner: SolutionClient
    _assayd_at: int

    def __call__(cls, *args: object, **kwargs: object) -> object:
        return _ask_class(cls, "call", "", *args, **kwargs)

    def __getattr__(cls, name: str) -> object:
        if name[:2] == "__":
            raise AttributeError(name)
        return _ask_class(cls, "get", name)

    def __setattr__(cls, name: str, value: object) -> None:
        _ask_class(cls, "set", name, value)

    def __delattr__(cls, name: str) -> None:
        _ask_class(cls, "delete", name)


class RemoteObject:
    """A proxy for an object of the solution, which is identified by a number."""

    __slots__ = ("__weakref__", "_assayd_label", "_assayd_number", "_assayd_solution")

    def __call__(self, *args: object, **kwargs: object) -> object:
        return _ask_object(self, "call", "", *args, **kwargs)

    def __getattr__(self, name: str) -> object:
        if name == "__name__":
            return object.__getattribute__(self, "_assayd_label")
        if name[:2] == "__":
            raise AttributeError(name)
        return _ask_object(self, "get", name)

    def __setattr__(self, name: str, value: object) -> None:
        _ask_object(self, "set", name, value)

    def __delattr__(self, name: str) -> None:
        _ask_object(self, "delete", name)

    def __next__(self) -> object:
        object.__getattribute__(self, "_assayd_solution").count()
        return _ask_object(self, "special", "__next__")

    def __contains__(self, value: object) -> bool:
        # Compared item by item here, because the solution must not learn the value.
        return any(item is value or item == value for item in self)

    def __iter__(self) -> Iterator[object]:
        return _ask_object(self, "special", "__iter__")  # type: ignore[return-value]

    def __bool__(self) -> bool:
        return _ask_object(self, "special", "__bool__") is True

    def __len__(self) -> int:
        return _ask_exact_type(self, int, "__len__")

    def __str__(self) -> str:
        return _ask_exact_type(self, str, "__str__")

    def __repr__(self) -> str:
        return _ask_exact_type(self, str, "__repr__")

    def __format__(self, form: str) -> str:
        return format(str(self), form)

    def __getitem__(self, key: object) -> object:
        return _ask_object(self, "special", "__getitem__", key)

    def __setitem__(self, key: object, value: object) -> None:
        _ask_object(self, "special", "__setitem__", key, value)

    def __delitem__(self, key: object) -> None:
        _ask_object(self, "special", "__delitem__", key)

    def __enter__(self) -> object:
        return _ask_object(self, "special", "__enter__")

    def __exit__(self, kind: object, problem: object, traceback: object) -> Literal[False]:
        # No exception of the tests reaches the solution, and the solution can't swallow any.
        _ask_object(self, "special", "__exit__", None, None, None)
        return False

    def __await__(self) -> Generator[object, None, object]:
        yield from ()
        return _ask_object(self, "await", "")

    def __reduce_ex__(self, _: object) -> str:
        raise object.__getattribute__(self, "_assayd_solution").refuse(
            "An object of the solution can't be copied"
        )

    __hash__ = object.__hash__


def _ask_exact_type(remote: RemoteObject, kind: type[_T], name: str) -> _T:
    value = _ask_object(remote, "special", name)
    if type(value) is not kind:
        raise TypeError(f"{name} returned a {type_name(value)}")
    return value


def _build_comparison_method(name: str) -> Callable[[RemoteObject, object], object]:
    def compare(self: RemoteObject, other: object) -> object:
        solution: SolutionClient = object.__getattribute__(self, "_assayd_solution")
        if not solution.trusted:
            label = object.__getattribute__(self, "_assayd_label")
            raise solution.refuse(f"{name} on an object of the solution ({label})")
        return _ask_object(self, "special", name, other)

    compare.__name__ = name
    return compare


_OPERATOR_NAMES = (
    "eq ne lt le gt ge add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod "
    "divmod rdivmod pow rpow matmul rmatmul and rand or ror xor rxor lshift rlshift rshift rrshift "
    "iadd isub imul neg pos abs invert round int float index complex trunc floor ceil"
)
_UNARY_OPERATORS = frozenset(
    {"neg", "pos", "abs", "invert", "round", "int", "float", "index", "complex", "trunc", "floor", "ceil"}
)


def _build_reduce_method(name: str) -> Callable[..., object]:
    def reduce(self: RemoteObject, *more: object) -> object:
        solution: SolutionClient = object.__getattribute__(self, "_assayd_solution")
        if not solution.trusted:
            raise solution.refuse(f"{name} on an object of the solution")
        return _ask_object(self, "special", name, *more)

    reduce.__name__ = name
    return reduce


for _name in _OPERATOR_NAMES.split():
    setattr(
        RemoteObject,
        f"__{_name}__",
        (_build_reduce_method if _name in _UNARY_OPERATORS else _build_comparison_method)(f"__{_name}__"),
    )


def _describe(value: object, kept: bool) -> tuple[str, list[str]] | None:
    """Return the description of a test function that the solution may call, or None for other values."""
    kind = type(value)
    if kind is _Function or kind.__name__ in {"method", "_lru_cache_wrapper"}:
        return "function", [str(getattr(value, "__name__", "callback"))[:100]]
    return None


def _perform_call(
    operation: str, value: object, name: str, args: list[object], kwargs: dict[str, object]
) -> object:
    if operation != "call":
        raise InvalidPeerMessageError("something else than a call")
    return value(*args, **kwargs)  # type: ignore[operator]


def _describe_exception(problem: BaseException, operation: str, name: str) -> Raised:
    """Return the description of an exception that a called-back function raised."""
    known = builtin_names.NAMES.get(type(problem).__name__)
    base = known if known is type(problem) and _is_exception(known) else RuntimeError
    return {
        "type": base.__name__,
        "names": [type_name(problem)],
        "message": str(problem)[:1000],
        "told": None,
    }


def _create_exception(kind: type[BaseException], args: object, message: str) -> BaseException:
    """Return an exception, with the original arguments if they could be transferred.

    If the type can't be created with them, return a RuntimeError.
    """
    try:
        return kind(*args) if type(args) is tuple else kind(message)
    except Exception:  # noqa: BLE001 - a type that wants other arguments
        return RuntimeError(f"{kind.__name__}: {message}")


def _render(value: object) -> str:
    """Return a plain value as text. Describe a proxy without sending a request to its object."""
    if isinstance(value, RemoteObject):
        return f"<{object.__getattribute__(value, '_assayd_label')}>"
    if type(value) is tuple:
        return f"({', '.join(map(_render, value[:8]))}{', …' if len(value) > 8 else ''})"
    if type(value) in {list, dict, set} and any(isinstance(item, RemoteObject) for item in value):  # type: ignore[attr-defined]
        return f"<{type(value).__name__}>"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a class of the context, or the solution was asked for a part of it
        return f"<{type_name(value)}>"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
