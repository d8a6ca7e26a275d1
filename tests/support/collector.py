"""A trace collector for tests: it accepts OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

PREFIX = "assayd."
WITHIN_S = 30.0


@dataclass(frozen=True)
class Received:
    """A delivered span; `facts` are its attributes without their prefix."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    service: str
    kind: str
    began_ns: int
    ended_ns: int
    failed: bool
    links: Sequence[str]
    facts: dict[str, object]

    @property
    def took_ms(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e6


@dataclass
class Collector:
    """The deliveries so far; `status` is the answer to the next ones."""

    port: int = 0
    status: int = 200
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/traces"

    @property
    def spans(self) -> list[Received]:
        """Return all spans in the order of their start times."""
        found = [
            _received(span, service)
            for request in list(self.requests)
            for resource in request.resource_spans
            for service in [_facts(resource.resource.attributes)["service.name"]]
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.began_ns)

    def wait_for(self, name: str, count: int = 1, **facts: object) -> list[Received]:
        """Wait for spans with this name and these attributes, and return them."""

        def found() -> list[Received]:
            return [each for each in self.spans if each.name == name and each.facts.items() >= facts.items()]

        with self.changed:
            self.changed.wait_for(lambda: len(found()) >= count, WITHIN_S)
        assert len(found()) >= count, f"no {count} {name} {facts} among {[each.name for each in self.spans]}"
        return found()

    def text(self) -> str:
        """Return all deliveries as text."""
        return "\n".join(map(str, self.requests))

    def tree(self, root: Received | None = None) -> list[str]:
        """Return the names of spans, indented by depth, in the order of their start times."""
        spans = self.spans
        ids = {span.span_id for span in spans}

        def below(span: Received, depth: int) -> Iterator[str]:
            yield "  " * depth + span.name
            for each in spans:
                if each.parent_id == span.span_id:
                    yield from below(each, depth + 1)

        roots = [root] if root is not None else [each for each in spans if each.parent_id not in ids]
        return [line for each in roots for line in below(each, 0)]


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a loopback address while the body runs."""
    collector = Collector()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(collector))
    collector.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(collector: Collector) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            request = ExportTraceServiceRequest.FromString(body)
            with collector.changed:
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                if collector.status == 200:
                    collector.requests.append(request)
                collector.changed.notify_all()
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(collector.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _received(span: SpanMessage, service: object) -> Received:
    return Received(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        service=str(service),
        kind=SpanMessage.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        began_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        links=[link.trace_id.hex() for link in span.links],
        facts=_facts(span.attributes),
    )


def _facts(attributes: Sequence[object]) -> dict[str, object]:
    return {each.key.removeprefix(PREFIX): _value(each.value) for each in attributes}  # type: ignore[attr-defined]


def _value(value: AnyValue) -> object:
    return getattr(value, str(value.WhichOneof("value")))
