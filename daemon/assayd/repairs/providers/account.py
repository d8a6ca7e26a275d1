"""One configured model, and the library that its API is spoken through."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from assayd.errors import ConfigError
from assayd.repairs.providers.keys import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One configured model.

    Args:
        type: which API it is, e.g. ``openai``.
        base_url: the address of a server that is not the vendor's.
        max_tokens: how long an answer may be; None leaves it to the API where that is possible.
        timeout_s: longest that one call may take, within the time that is left.
    """

    name: str
    type: str
    model: str
    key: Key
    base_url: str | None = None
    max_tokens: int | None = None
    timeout_s: float = 120.0


def load(module: str, *, account: Account, loggers: Sequence[str]) -> None:
    """Import a vendor's library, and keep it from writing what it sends into our log.

    Raises: ConfigError ``repair.extra`` when it is not installed.
    """
    try:
        importlib.import_module(module)
    except ImportError as problem:
        message = (
            f"repair.providers.{account.name}: the type {account.type} needs an extra that is not installed: "
            f"pip install 'assayd[{account.type}]'"
        )
        raise ConfigError("repair.extra", message, field=f"repair.providers.{account.name}.type") from problem
    for name in (*loggers, "httpx2", "httpcore2", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
