"""Defines the requests that run approved pipelines on new data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assayd_client import documents
from assayd_client.requests import ClientRequest, filter_query, path, wait_query


def run_pipeline(  # noqa: PLR0913  (the fields of a run)
    name: str,
    *,
    version: int | None = None,
    files: Mapping[str, object] | None = None,
    database: Mapping[str, object] | None = None,
    range: Mapping[str, float] | None = None,  # noqa: A002 - the field's name
    strict: bool = False,
    labels: Mapping[str, str] | None = None,
    webhook: str | None = None,
    wait_s: float = 0,
) -> ClientRequest[documents.AttemptDocument]:
    """Run an approved pipeline on new data.

    Differences from earlier runs are reported as findings of the attempt.
    """
    given = {
        "name": name,
        "version": version,
        "files": files,
        "database": database,
        "range": range,
        "strict": strict or None,
        "labels": labels,
        "webhook": webhook,
    }
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
    """Return a page of runs of an approved pipeline with their row counts, newest first."""
    filters: dict[str, str | int | Sequence[str] | None] = {
        "version": version,
        "cursor": cursor,
        "limit": limit,
    }
    query = filter_query({"name": name, **filters})
    return ClientRequest(method="GET", path=path("pipelines", "runs"), query=query)
