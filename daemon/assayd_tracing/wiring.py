"""Builds the tracing from the settings."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from assayd import __version__
from assayd.errors import ConfigError
from assayd.metrics import Metrics
from assayd.settings.model import TracingSettings
from assayd_tracing.spans import BoundedSpanProcessor, OtelTracing

MAX_HEADER_FILE_BYTES = 16 * 2**10
MAX_ATTRIBUTE_CHARS = 256
"""Maximum number of characters of an attribute's value; longer values are truncated."""


def build_tracing(
    settings: TracingSettings,
    stack: AsyncExitStack,
    metrics: Metrics,
    *,
    daemon_id: str,
    exporter: SpanExporter | None = None,
) -> OtelTracing:
    """Build the tracing, which sends spans until the stack closes. `exporter` replaces OTLP in tests.

    Raises: ConfigError ``tracing.endpoint``, if headers would be sent unencrypted to another host;
    ``tracing.headers``, if the headers' file can't be used.
    """
    export = BoundedSpanProcessor(
        exporter or _build_otlp_exporter(settings),
        most=settings.queue,
        count=lambda outcome, spans: metrics.trace_spans.labels(outcome).inc(spans),
    )
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
        resource=Resource.create(
            {
                "service.name": settings.service_name,
                "service.version": __version__,
                "service.instance.id": daemon_id,
            }
        ),
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_span_attribute_length=MAX_ATTRIBUTE_CHARS),
    )
    provider.add_span_processor(export)
    stack.callback(provider.shutdown)
    tracer = provider.get_tracer("assayd", __version__)
    return OtelTracing(
        tracer, continues_callers=settings.continue_callers, sample_ratio=settings.sample_ratio
    )


def _build_otlp_exporter(settings: TracingSettings) -> OTLPSpanExporter:
    headers = _read_headers(settings.headers_file) if settings.headers_file is not None else {}
    if headers and not _is_secure_endpoint(settings.endpoint or ""):
        message = "tracing.endpoint: headers are sent to another host over https:// only"
        raise ConfigError("tracing.endpoint", message, field="tracing.endpoint")
    # It logs every retry. Our log has one line, and the metric counts everything.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    session = requests.Session()
    session.trust_env = False  # uses neither a proxy nor ~/.netrc
    return OTLPSpanExporter(
        endpoint=settings.endpoint,
        certificate_file=str(settings.ca_file) if settings.ca_file is not None else None,
        headers=headers,
        timeout=settings.timeout_s,
        session=session,
    )


def _is_secure_endpoint(endpoint: str) -> bool:
    """Return whether an address uses TLS or belongs to this host."""
    parts = urlsplit(endpoint)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _read_headers(path: Path) -> dict[str, str]:
    """Return the headers in a file that only its owner can read. The values are never shown.

    Raises: ConfigError ``tracing.headers``, if the file can't be used.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(MAX_HEADER_FILE_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as problem:
        raise _build_headers_error(f"{path} can't be read: {type(problem).__name__}") from problem
    if mode & 0o077:
        raise _build_headers_error(f"{path} (mode {mode:04o}) holds a secret: chmod 0600")
    headers = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip() or line.startswith("#"):
            continue
        if not colon or not name or not value.isprintable() or not name.replace("-", "").isalnum():
            raise _build_headers_error(f"{path}, line {number}: write `Name: value`")
        headers[name] = value
    return headers


def _build_headers_error(message: str) -> ConfigError:
    return ConfigError("tracing.headers", f"tracing.headers_file: {message}", field="tracing.headers_file")
