"""Loads `assayd_tracing`, the optional tracing package, if the operator has configured a collector."""

from __future__ import annotations

from contextlib import AsyncExitStack
from importlib import import_module
from importlib.util import find_spec

from assayd.errors import ConfigError
from assayd.metrics import Metrics
from assayd.ports.tracing import NO_TRACING, Tracing
from assayd.settings.model import TracingSettings

NEEDED = ("assayd_tracing", "opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
"""Required packages; each follows its parent packages."""


def open_tracing(
    settings: TracingSettings, stack: AsyncExitStack, metrics: Metrics, *, daemon_id: str
) -> Tracing:
    """Return the tracing part, which stays open until the stack is closed.

    The package is imported only if a collector is configured.

    Raises: ConfigError ``tracing.missing``, ``tracing.endpoint``, ``tracing.headers``.
    """
    if settings.endpoint is None:
        return NO_TRACING
    if (missing := _missing_package()) is not None:
        message = f"[tracing] needs {missing}: install assayd with the extra `otel`"
        raise ConfigError("tracing.missing", message, field="tracing")
    wing = import_module("assayd_tracing.wiring")
    tracing: Tracing = wing.build_tracing(settings, stack, metrics, daemon_id=daemon_id)
    return tracing


def _missing_package() -> str | None:
    for package in NEEDED:
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return package
    return None
