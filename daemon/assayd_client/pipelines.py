"""Requests about runs of approved pipelines on new data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assayd_client import documents
from assayd_client.requests import ClientRequest, filter_query, path, wait_query


def run_pipeline(
    name: str, *, version: int | None = None, wait_s: float = 0, **fields: object
) -> ClientRequest[documents.AttemptDocument]:
    """Run an approved pipeline on new data; differences from earlier runs are findings of the attempt.

    `fields` are `files` by path, `database` {"base64"}, `range`, `strict`, `labels`, `webhook`.
    """
    given = {"name": name, "version": version, **fields}
    return ClientRequest(
        reads=lambda: documents.AttemptDocument,
        method="POST",
        path=path("pipelines", "runs"),
        query=wait_query(wait_s),
        document={key: value for key, value in given.items() if value is not None},
        wait_s=wait_s,
    )


def pipeline_runs(
    name: str, *, version: int | None = None, cursor: str | None = None, limit: int | None = None
) -> ClientRequest[Any]:
    """Return a page of the runs of an approved pipeline with their numbers of rows, newest first."""
    filters: dict[str, str | int | Sequence[str] | None] = {
        "version": version,
        "cursor": cursor,
        "limit": limit,
    }
    query = filter_query({"name": name, **filters})
    return ClientRequest(method="GET", path=path("pipelines", "runs"), query=query)
