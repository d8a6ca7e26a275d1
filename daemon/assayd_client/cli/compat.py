"""`assay compat`: serves clients of other judges, if that wing is installed."""

from __future__ import annotations

from collections.abc import Sequence

from assayd.errors import RequestError
from assayd_client import Target
from assayd_client.cli.exits import VALIDATED

NEEDS = "assay compat needs the package assayd_compat, which comes with the daemon: install assayd"


def serve(daemon: Target, *, listen: str, at_once: int, policies: Sequence[str]) -> int:
    """Serve until the program is ended."""
    try:
        from assayd_compat.serving import serve as serve_compat
    except ModuleNotFoundError as missing:
        raise RequestError("usage", NEEDS) from missing
    serve_compat(daemon, listen, at_once=at_once, policies=policies)
    return VALIDATED
