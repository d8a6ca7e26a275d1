"""Binds what can be asked to the clients: the same verbs block, are awaited, or give plain JSON objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from assayd.client import requests
from assayd.client.answers import Document, StreamEvent
from assayd.client.requests import Ask

if TYPE_CHECKING:
    from assayd.client.asynchronous import AsyncClient
    from assayd.client.blocking import Client
    from assayd.client.plain import PlainClient

P = ParamSpec("P")
T = TypeVar("T")


class Verb(Generic[P, T]):
    """A request that each client has as a method; what that returns is the client's to say."""

    _send: str
    """The method of the clients that sends it."""

    def __init__(self, ask: Callable[P, Ask[T]]) -> None:
        self._ask = ask
        self.__doc__ = ask.__doc__

    def _bind(self, client: Any) -> Any:
        @wraps(self._ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return getattr(client, self._send)(self._ask(*args, **kwargs))

        return call


class Answer(Verb[P, T]):
    """A verb whose answer is a document."""

    _send = "send"

    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: PlainClient, owner: object = None) -> Callable[P, Document]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        """Return the verb as a method."""
        return self._bind(client)


class Content(Verb[P, bytes]):
    """A verb whose answer is taken as it is."""

    _send = "send_for_content"

    @overload
    def __get__(self, client: Client | PlainClient, owner: object = None) -> Callable[P, bytes]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, Awaitable[bytes]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        """Return the verb as a method."""
        return self._bind(client)


class Events(Verb[P, StreamEvent]):
    """A verb whose answer is a stream of events, as they come."""

    _send = "send_for_events"

    @overload
    def __get__(
        self, client: Client | PlainClient, owner: object = None
    ) -> Callable[P, Iterator[StreamEvent]]: ...
    @overload
    def __get__(
        self, client: AsyncClient, owner: object = None
    ) -> Callable[P, AsyncIterator[StreamEvent]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        """Return the verb as a method."""
        return self._bind(client)


class Lines(Verb[P, T]):
    """A verb whose answer is a document per line, as they come."""

    _send = "send_for_lines"

    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, client: PlainClient, owner: object = None) -> Callable[P, Iterator[Document]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        """Return the verb as a method."""
        return self._bind(client)


class Verbs:
    """The verbs of all clients."""

    submit = Answer(requests.submit)
    attempt = Answer(requests.attempt)
    attempts = Answer(requests.attempts)
    cancel = Answer(requests.cancel)
    replay = Answer(requests.replay)
    send_batch = Answer(requests.send_batch)
    events = Events(requests.events)
    all_events = Events(requests.all_events)
    artifact = Content(requests.artifact)
    bundle = Content(requests.bundle)
    batch = Answer(requests.batch)
    batches = Answer(requests.batches)
    batch_items = Answer(requests.batch_items)
    batch_results = Lines(requests.batch_results)
    batch_events = Events(requests.batch_events)
    cancel_batch = Answer(requests.cancel_batch)
    repair = Answer(requests.repair)
    repairs_of = Answer(requests.repairs_of)
    repairs = Answer(requests.repairs)
    repair_state = Answer(requests.repair_state)
    repair_step = Answer(requests.repair_step)
    repair_events = Events(requests.repair_events)
    cancel_repair = Answer(requests.cancel_repair)
    accept_fallback = Answer(requests.accept_fallback)
    policies = Answer(requests.policies)
    policy = Answer(requests.policy)
    check_policy = Answer(requests.check_policy)
    kinds = Answer(requests.kinds)
    kind = Answer(requests.kind)
    records = Answer(requests.records)
    doctor = Answer(requests.doctor)
    collect_garbage = Answer(requests.collect_garbage)
    metrics = Content(requests.metrics)
