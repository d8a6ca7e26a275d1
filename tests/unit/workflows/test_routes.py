"""Answers about workflows that are built in turn."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any, cast

from assayd.api.call import Call, LargeResponse, LargeResponseSlots
from assayd.model.submission import Peer
from assayd_workflows.routes import get_workflow_bundle

PEER = Peer(uid=5, gid=5, pid=1)


class FoundFile:
    """Has one workflow, whose contents are read only at the caller's turn."""

    async def get(self, workflow_id: str) -> SimpleNamespace:
        return SimpleNamespace(id=workflow_id, peer=PEER)


async def test_bundle_is_built_at_the_callers_turn() -> None:
    parts: dict[str, Any] = {each.name: None for each in fields(Call)}
    parts |= {"large": LargeResponseSlots(most_s=1), "caller": SimpleNamespace(peer=PEER)}
    parts["access"] = SimpleNamespace(sees=lambda *_: True, is_operator=lambda _: True)

    answer = await get_workflow_bundle(Call(**parts), cast("Any", FoundFile()), "01J" + "0" * 23)

    assert isinstance(answer, LargeResponse)
    assert answer.headers["content-type"] == "application/x-tar"
