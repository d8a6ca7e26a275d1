"""Resolves a user's reference to an attempt, batch or repair: a complete id, its beginning, or `last`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from assayd.errors import RequestError
from assayd_client import Document, NotFound, PlainClient

LAST = "last"
MAX_NAMED_MATCHES = 3

_ULID_PATTERN = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
# Shorter prefixes aren't looked up, because they would soon be ambiguous.
_PREFIX_PATTERN = re.compile(r"[0-9A-HJKMNP-TV-Z]{4,25}")


def resolve_attempt_id(client: PlainClient, said: str) -> str:
    """Return the attempt id that a user means by an id, the beginning of an id, or `last`.

    Raises: NotFound, if no attempt matches; RequestError ``id.ambiguous``, if several match.
    """
    if said == LAST:
        return _require_single_match("attempt", said, client.attempts(limit=1)["attempts"])
    if not _PREFIX_PATTERN.fullmatch(said.upper()):
        return _normalize_id(said)
    found = client.attempts(id_prefix=said.upper(), limit=MAX_NAMED_MATCHES)["attempts"]
    return _require_single_match("attempt", said, found)


def resolve_repair_id(client: PlainClient, said: str) -> str:
    """Return the repair id that a user means by an id, the beginning of an id, or `last`.

    Raises: the same errors as `resolve_attempt_id`.
    """
    return _find_by_prefix("repair", said, client.repairs, "repairs")


def resolve_generation_id(client: PlainClient, said: str) -> str:
    """Return the generation id that a user means by an id, the beginning of an id, or `last`.

    Raises: the same errors as `resolve_attempt_id`.
    """
    return _find_by_prefix("generation", said, client.generations, "generations")


def resolve_workflow_id(client: PlainClient, said: str) -> str:
    """Return the workflow id that a user means by an id, the beginning of an id, or `last`.

    Raises: the same errors as `resolve_attempt_id`.
    """
    return _find_by_prefix("workflow", said, client.workflows, "workflows")


def resolve_batch_id(client: PlainClient, said: str) -> str:
    """Return the batch id that a user means by a name, an id, the beginning of an id, or `last`.

    Names take precedence over ids. Raises: the same errors as `resolve_attempt_id`.
    """
    try:
        named: str = client.batch(said)["id"]
    except NotFound:
        if said != LAST and not _PREFIX_PATTERN.fullmatch(said.upper()):
            raise
    else:
        return named
    return _find_by_prefix("batch", said, client.batches, "batches")


def resolve_record_id(client: PlainClient, route: str, noun: str, said: str) -> str:
    """Return the id of a kind's record that a user means by an id, its beginning, or `last`.

    Raises: the same errors as `resolve_attempt_id`.
    """
    return _find_by_prefix(noun, said, partial(client.records, route), route)


def _find_by_prefix(noun: str, said: str, fetch: Callable[..., Document], key: str) -> str:
    """Return the single id that begins with `said`, or the newest id for `last`.

    Raises: NotFound, if no id matches; RequestError ``id.ambiguous``, if several match.
    """
    if said != LAST and not _PREFIX_PATTERN.fullmatch(said.upper()):
        return _normalize_id(said)
    found: list[Document] = []
    for each in iter_pages(fetch, key):
        if said == LAST or each["id"].startswith(said.upper()):
            found.append(each)
        if found and (said == LAST or len(found) == MAX_NAMED_MATCHES):
            break
    return _require_single_match(noun, said, found)


def _normalize_id(said: str) -> str:
    """Return a complete id in upper case. Anything that isn't an id is rejected by the daemon."""
    return said.upper() if _ULID_PATTERN.fullmatch(said.upper()) else said


def iter_pages(fetch: Callable[..., Document], key: str) -> Iterator[Document]:
    """Fetch all pages, and yield the entries of their list `key`, newest first."""
    cursor = None
    while True:
        document = fetch(cursor=cursor, limit=100)
        yield from document[key]
        cursor = document.get("next_cursor")
        if cursor is None:
            return


def _require_single_match(noun: str, said: str, found: list[Document]) -> str:
    if not found:
        message = f"no {noun} exists yet" if said == LAST else f"{noun} {said} doesn't exist"
        raise NotFound("not_found", message, status=404)
    if len(found) > 1:
        named = ", ".join(each["id"] for each in found)
        message = f"{said} matches several ids: {named}; write more characters of the id"
        raise RequestError("id.ambiguous", message)
    one: str = found[0]["id"]
    return one
