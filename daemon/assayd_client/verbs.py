"""Turns the requests into methods of the clients, with the return type of each client."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar, overload

from assayd_client import requests, wing_requests
from assayd_client.answers import Document, StreamEvent
from assayd_client.requests import ClientRequest

if TYPE_CHECKING:
    from assayd_client.asynchronous import AsyncClient
    from assayd_client.blocking import Client, PlainClient

P = ParamSpec("P")
T = TypeVar("T")


class Verb(Generic[P, T]):
    """A request as a method of each client, which determines the type of the result."""

    _send: str
    """The name of the client method that sends the request."""

    def __init__(self, ask: Callable[P, ClientRequest[T]]) -> None:
        self._ask = ask
        self.__doc__ = ask.__doc__

    def _bind_method(self, client: Any, owner: Any) -> Any:
        """Return the verb bound to a client or, without a client, a documented function for `help`."""
        if client is None:
            return _build_documented_function(self._ask, owner, self._send)

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return getattr(client, self._send)(self._ask(*args, **kwargs))

        return call


def _build_documented_function(ask: Callable[..., Any], owner: type[Verbs], send: str) -> Callable[..., Any]:
    """Return a function with a verb's name, parameters and docstring, for use by `help`."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, ask.__name__)(*args, **kwargs)

    signature = inspect.signature(ask)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    answer = str(signature.return_annotation).removeprefix("ClientRequest[").removesuffix("]")
    method.__name__, method.__doc__ = ask.__name__, ask.__doc__
    method.__qualname__ = f"{owner.__name__}.{ask.__name__}"
    method.__module__ = owner.__module__
    described: Any = method
    described.__signature__ = signature.replace(
        parameters=[first, *signature.parameters.values()],
        return_annotation=owner.returned[send].format(answer.removeprefix("documents.")),
    )
    return method


class DocumentVerb(Verb[P, T]):
    """A verb whose response is a document."""

    _send = "send"

    @overload
    def __get__(self, client: None, owner: object = None) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: PlainClient, owner: object = None) -> Callable[P, Document]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        """Return a client method that sends the request and returns the response as a document."""
        return self._bind_method(client, owner)


class Content(Verb[P, bytes]):
    """A verb whose response is unprocessed bytes."""

    _send = "send_for_content"

    @overload
    def __get__(self, client: None, owner: object = None) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client | PlainClient, owner: object = None) -> Callable[P, bytes]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, Awaitable[bytes]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        """Return the verb as a method of the client that returns bytes."""
        return self._bind_method(client, owner)


class Events(Verb[P, StreamEvent]):
    """A verb whose response is a stream of events."""

    _send = "send_for_events"

    @overload
    def __get__(self, client: None, owner: object = None) -> Callable[..., Any]: ...
    @overload
    def __get__(
        self, client: Client | PlainClient, owner: object = None
    ) -> Callable[P, Iterator[StreamEvent]]: ...
    @overload
    def __get__(
        self, client: AsyncClient, owner: object = None
    ) -> Callable[P, AsyncIterator[StreamEvent]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        """Return the verb as a method of the client that returns a stream of events."""
        return self._bind_method(client, owner)


class Lines(Verb[P, T]):
    """A verb whose response is a stream of documents, one per line."""

    _send = "send_for_lines"

    @overload
    def __get__(self, client: None, owner: object = None) -> Callable[..., Any]: ...
    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object = None) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, client: PlainClient, owner: object = None) -> Callable[P, Iterator[Document]]: ...
    def __get__(self, client: Any, owner: object = None) -> Any:
        """Return the verb as a method of the client that returns a stream of documents."""
        return self._bind_method(client, owner)


class Verbs:
    """The base class of the clients, with all verbs as methods.

    Attributes:
        returned: the return types of the methods, keyed by the name of the method that sends the request;
            used by `help`.
    """

    returned: ClassVar[Mapping[str, str]]

    submit = DocumentVerb(requests.submit)
    attempt = DocumentVerb(requests.attempt)
    attempts = DocumentVerb(requests.attempts)
    summary = DocumentVerb(requests.summary)
    cancel = DocumentVerb(requests.cancel)
    replay = DocumentVerb(requests.replay)
    send_batch = DocumentVerb(requests.send_batch)
    events = Events(requests.events)
    all_events = Events(requests.all_events)
    artifact = Content(requests.artifact)
    bundle = Content(requests.bundle)
    batch = DocumentVerb(requests.batch)
    batches = DocumentVerb(requests.batches)
    batch_items = DocumentVerb(requests.batch_items)
    batch_results = Lines(requests.batch_results)
    batch_attestation = Content(requests.batch_attestation)
    batch_events = Events(requests.batch_events)
    retry_batch_errors = DocumentVerb(requests.retry_batch_errors)
    cancel_batch = DocumentVerb(requests.cancel_batch)
    repair = DocumentVerb(requests.repair)
    repairs_of = DocumentVerb(requests.repairs_of)
    repairs = DocumentVerb(requests.repairs)
    repair_state = DocumentVerb(requests.repair_state)
    repair_step = DocumentVerb(requests.repair_step)
    repair_events = Events(requests.repair_events)
    cancel_repair = DocumentVerb(requests.cancel_repair)
    answers = DocumentVerb(requests.answers)
    accept_fallback = DocumentVerb(requests.accept_fallback)
    generate = DocumentVerb(requests.generate)
    generation = DocumentVerb(requests.generation)
    generations = DocumentVerb(requests.generations)
    generation_events = Events(requests.generation_events)
    generation_step = DocumentVerb(requests.generation_step)
    cancel_generation = DocumentVerb(requests.cancel_generation)
    hint_generation = DocumentVerb(requests.hint_generation)
    approve_generation = DocumentVerb(requests.approve_generation)
    approve = DocumentVerb(requests.approve)
    library = DocumentVerb(requests.library)
    library_history = DocumentVerb(requests.library_history)
    library_entry = DocumentVerb(requests.library_entry)
    remove_from_library = DocumentVerb(requests.remove_from_library)
    check_workflow = DocumentVerb(wing_requests.check_workflow)
    start_workflow = DocumentVerb(wing_requests.start_workflow)
    resume_workflow = DocumentVerb(wing_requests.resume_workflow)
    workflow = DocumentVerb(wing_requests.workflow)
    workflows = DocumentVerb(wing_requests.workflows)
    workflow_outputs = DocumentVerb(wing_requests.workflow_outputs)
    workflow_bundle = Content(wing_requests.workflow_bundle)
    workflow_events = Events(wing_requests.workflow_events)
    cancel_workflow = DocumentVerb(wing_requests.cancel_workflow)
    policies = DocumentVerb(requests.policies)
    policy = DocumentVerb(requests.policy)
    check_policy = DocumentVerb(requests.check_policy)
    try_policy = Events(requests.try_policy)
    explain_policy = DocumentVerb(requests.explain_policy)
    suggest_policy = DocumentVerb(requests.suggest_policy)
    kinds = DocumentVerb(requests.kinds)
    kind = DocumentVerb(requests.kind)
    records = DocumentVerb(requests.records)
    run_pipeline = DocumentVerb(wing_requests.run_pipeline)
    pipeline_runs = DocumentVerb(wing_requests.pipeline_runs)
    doctor = DocumentVerb(requests.doctor)
    daemon = DocumentVerb(requests.daemon)
    audit = Content(requests.audit)
    collect_garbage = DocumentVerb(requests.collect_garbage)
    metrics = Content(requests.metrics)
    create_token = DocumentVerb(requests.create_token)
    tokens = DocumentVerb(requests.tokens)
    revoke_token = DocumentVerb(requests.revoke_token)
    nodes = DocumentVerb(requests.nodes)
    drain_node = DocumentVerb(requests.drain_node)
    resume_node = DocumentVerb(requests.resume_node)
    distrust_node = DocumentVerb(requests.distrust_node)
    forget_node = DocumentVerb(requests.forget_node)
