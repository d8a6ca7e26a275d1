"""The page of a cluster's nodes, with a scripted gateway."""

from __future__ import annotations

import pytest

from assayd_client import DaemonUnreachable, NotFound
from assayd_console.pages.now import has_nodes
from assayd_console.rendering import build_environment, enable_cluster_menu, render_page
from unit.console.test_pages import HOSTILE, logged_in

NODE = {
    "name": "node-1",
    "state": "not_ready",
    "why": f"canary failed {HOSTILE}",
    "capacity": 4,
    "in_hand": 1,
    "version": "0.1.0",
    "engine": HOSTILE,
    "beat_at": "2026-01-01T00:00:00Z",
    "silent_s": 2.5,
}


async def test_nodes_are_shown_with_their_reason_and_nothing_of_them_is_markup() -> None:
    async with logged_in(
        {"/v1/nodes": {"nodes": [NODE, {**NODE, "name": "node-2", "state": "draining"}]}}
    ) as (
        client,
        _,
    ):
        shown = (await client.get("/nodes")).text
    assert "canary failed" in shown
    assert "<script>alert" not in shown
    assert "not ready" in shown
    assert 'action="/nodes/node-1/drain"' in shown
    assert 'action="/nodes/node-2/resume"' in shown


@pytest.mark.parametrize("act", ["drain", "resume"])
async def test_node_is_drained_and_resumed_by_a_form(act: str) -> None:
    path = f"/v1/nodes/node-1/{act}"
    async with logged_in({path: NODE}) as (client, told):
        answer = await client.post(f"/nodes/node-1/{act}", data={"x": "1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/nodes")
    assert [sent for sent, _ in told.sent] == [path]


class _Answers:
    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def ask(self, _: object) -> object:
        if self._error is not None:
            raise self._error
        return {"nodes": []}


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (None, True),
        (NotFound("not_found", "there is nothing here", status=404), False),
        (DaemonUnreachable("daemon.unreachable", "x"), False),
    ],
)
async def test_menu_leads_to_nodes_where_there_is_a_cluster(error: Exception | None, found: bool) -> None:
    assert await has_nodes(_Answers(error)) is found  # type: ignore[arg-type]


def test_menu_names_nodes_once_it_is_known_that_there_are_any() -> None:
    menu = {"title": "x", "error": {"code": "x", "message": "x", "field": None}}
    try:
        assert b"/nodes" not in render_page("error.html", **menu).body
        enable_cluster_menu()
        assert b"/nodes" in render_page("error.html", **menu).body
    finally:
        build_environment().globals["cluster"] = False
