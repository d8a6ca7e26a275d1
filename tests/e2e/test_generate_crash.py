"""The daemon is killed during a generation: recorded answers aren't requested again."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pytest

from assayd_client import Document, PlainClient
from support.daemons.chosen import new_daemon

pytestmark = pytest.mark.system

PLAYER = """
import json, sys
from pathlib import Path

folder, asked = Path(sys.argv[1]), json.load(sys.stdin)
with (folder / "asked.jsonl").open("a") as file:
    file.write(json.dumps("fix" if asked["passage"]["name"] else "words") + "\\n")
place = len((folder / "asked.jsonl").read_text().splitlines())
if (gate := folder / f"gate{place}").exists():
    (folder / "waits").open("w").close()  # until the test looks
    gate.open().close()  # until the test lets it go on
print(json.dumps({"code": (folder / f"answer{place}").read_text(), "reason": "As asked."}))
"""
WRONG, RIGHT = "result: int = 1 / 0\n", "result: int = 3\n"
SLOW = "import time\ntime.sleep(4)\n"


class Gated:
    """A daemon whose provider waits at a chosen answer; a user may have one unfinished attempt."""

    def __init__(self, engine: str) -> None:
        settings = {"POOL__DEFAULT_TARGET": "1", "LIMITS__ATTEMPTS_PER_UID": "1"}
        self.daemon = new_daemon(engine, settings=settings)
        self.folder = self.daemon.home / "play"
        self.folder.mkdir()
        (self.folder / "player.py").write_text(PLAYER)
        os.mkfifo(self.folder / "waits")
        argv = [sys.executable, str(self.folder / "player.py"), str(self.folder)]
        providers = {"played": {"type": "command", "argv": argv}}
        self.daemon.settings["REPAIR__PROVIDERS"] = json.dumps(providers)

    def play(self, *answers: str, gate: int) -> None:
        """Set the provider's answers; it waits before the answer number `gate`."""
        (self.folder / "asked.jsonl").unlink(missing_ok=True)
        for place, answer in enumerate(answers, 1):
            (self.folder / f"answer{place}").write_text(answer)
        os.mkfifo(self.folder / f"gate{gate}")

    def wait_until_it_waits(self) -> None:
        """Wait until the provider waits; if it never does, the test's time limit ends the test."""
        (self.folder / "waits").open().close()

    def let_go(self, gate: int) -> None:
        """Let the provider continue."""
        (self.folder / f"gate{gate}").open("w").close()
        (self.folder / f"gate{gate}").unlink()

    @property
    def asked(self) -> list[str]:
        """Return the purpose of each request."""
        return [json.loads(line) for line in (self.folder / "asked.jsonl").read_text().splitlines()]

    def die(self) -> None:
        """Kill and restart the daemon."""
        self.daemon.kill()
        self.daemon.start()


@pytest.fixture(scope="module")
def gated(one_engine: str) -> Iterator[Gated]:
    gated = Gated(one_engine)
    try:
        gated.daemon.start()
        yield gated
    finally:
        gated.daemon.dispose()


def begun(client: PlainClient) -> str:
    return str(client.generate(kind="code", intent="three", context={})["id"])


def ended(client: PlainClient, generation_id: str) -> Document:
    assert [event.kind for event in client.generation_events(generation_id)][-1] == "finished"
    return client.generation(generation_id)


def test_death_while_a_provider_thinks_costs_that_request_alone(gated: Gated) -> None:
    gated.play(WRONG, RIGHT, RIGHT, gate=2)
    with gated.daemon.client() as client:
        generation_id = begun(client)
        gated.wait_until_it_waits()
        failed = client.generation(generation_id)["attempts"][0]

    (gated.folder / "gate2").unlink()
    gated.die()

    with gated.daemon.client() as client:
        generation = ended(client, generation_id)
        assert generation["outcome"] == "validated"
        assert generation["attempts"][0] == failed
        assert gated.asked == ["words", "fix", "fix"]


def test_death_between_an_answer_and_its_attempt_loses_neither(gated: Gated) -> None:
    gated.play(WRONG, RIGHT, gate=2)
    with gated.daemon.client() as client:
        generation_id = begun(client)
        gated.wait_until_it_waits()
        # The only attempt that this user may have: that of the answer has to wait.
        client.submit({"kind": "script", "payload": {"code": SLOW}})
        gated.let_go(2)
        for event in client.generation_events(generation_id):
            if event.kind == "fix" and len(event.body["attempts"]) == 2:
                break
        step = client.generation_step(generation_id, 2)
    made = gated.daemon.rows("SELECT id FROM attempts WHERE parent_id IS NOT NULL")

    gated.die()

    with gated.daemon.client() as client:
        generation = ended(client, generation_id)
        assert generation["outcome"] == "validated"
        assert client.generation_step(generation_id, 2) == step
        assert gated.asked == ["words", "fix"]
        assert generation["attempt_id"] not in {row["id"] for row in made}
