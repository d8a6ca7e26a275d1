"""Finds the recorders and the routes of kinds, which the daemon doesn't import directly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from fastapi import APIRouter

from assayd.errors import ConfigError
from assayd.kind import Kind
from assayd.kinds.registry import resolve
from assayd.store.recorder import Recorder


def recorders_of(kinds: Mapping[str, Kind]) -> tuple[Recorder, ...]:
    """Return the recorders of all kinds. Raises: ConfigError ``validator.broken``."""
    recorders = [
        cast("Recorder", resolve(validator.recorder)) for validator in kinds.values() if validator.recorder
    ]
    return tuple(recorders)


def routers_of(kinds: Mapping[str, Kind]) -> tuple[APIRouter, ...]:
    """Return the routes of all kinds. Raises: ConfigError ``validator.broken``."""
    return tuple(_resolve_router(validator.routes) for validator in kinds.values() if validator.routes)


def _resolve_router(reference: str) -> APIRouter:
    router = resolve(reference)
    if not isinstance(router, APIRouter):
        raise ConfigError("validator.broken", f"{reference} isn't a router", field=reference)
    return router
