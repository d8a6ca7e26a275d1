"""The client of commands that only a gateway answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from assayd.errors import RequestError
from assayd_client import NotFound, PlainClient

NO_ROUTE = "there is nothing here"
"""What a daemon says of a path that it does not know."""


@contextmanager
def gateway_client(context: typer.Context) -> Iterator[PlainClient]:
    """Open a client. Raises: RequestError ``usage``, where a daemon answers that is no gateway."""
    with PlainClient(context.find_root().obj) as client:
        try:
            yield client
        except NotFound as error:
            if error.message != NO_ROUTE:
                raise
            message = f"{client.address} is a daemon of one host; tokens and nodes are a gateway's"
            raise RequestError("usage", f"{message}, which --socket or --server names") from error
