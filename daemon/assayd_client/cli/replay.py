"""`assay replay`: run a submission again, and show how the two differ."""

from __future__ import annotations

import json
from collections.abc import Iterator

from assayd_client import Document, PlainClient
from assayd_client.cli.amounts import count
from assayd_client.cli.exits import CANCELLED, FAILED, TROUBLE, VALIDATED
from assayd_client.cli.screen import StyledLine, line
from assayd_client.cli.terminal import plain, shorten

WAIT_S = 600.0
MOST_CHARS = 60


def run(client: PlainClient, attempt_id: str) -> Document:
    """Replay an attempt and wait for the end."""
    attempt = client.replay(attempt_id, wait_s=WAIT_S)
    while attempt["state"] != "finished":
        attempt = client.attempt(attempt["id"], wait_s=WAIT_S)
    return attempt


def render_diff(attempt: Document) -> Iterator[StyledLine]:
    """Return the lines that show how a replay differs."""
    diff = attempt["replay_diff"]
    yield line((attempt["id"], "bold"), f"  replays {plain(attempt['replay_of'])}")
    if attempt["error"] is not None:
        yield line((f"{plain(attempt['error']['code'])}: {plain(attempt['error']['message'])}", "red"))
    if diff is None:
        yield line(("The first attempt's results are gone; there is nothing to compare with.", "yellow"))
        return
    verdicts = diff["verdict"]
    if diff["same"]:
        yield line(("✓ The same", "bold green"), f": {verdicts['after']}")
        return
    number = count(len(diff["differences"]) + diff["more"], "difference")
    yield line((f"✗ {number}", "bold red"), f": {verdicts['before']} before, {verdicts['after']} now")
    for each in diff["differences"]:
        before, after = (_shown(each["before"]), "red"), (_shown(each["after"]), "green")
        yield line(f"  {plain(each['field'])}: ", before, " → ", after)
    if diff["more"]:
        yield line((f"  … and {diff['more']} more", "dim"))


def exit_code(attempt: Document) -> int:
    """Return the exit code: whether the two are the same, unless the replay came to no result."""
    if attempt["verdict"] == "cancelled":
        return CANCELLED
    diff = attempt["replay_diff"]
    if attempt["verdict"] == "error" or diff is None:
        return TROUBLE
    return VALIDATED if diff["same"] else FAILED


def _shown(value: object) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), MOST_CHARS)
