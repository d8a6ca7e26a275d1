"""What must never stand in a prompt: planted before, searched for after.

A key of another provider and a variable of the daemon's environment, the name of another profile and of what
it allows, the words of every other request, and those of another user, who asks at the same time.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import secrets
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from assayd_client import ClientError, Document, PlainClient
from bench.generate.intents import Intent

PLANTED = {
    name: f"{name}-{secrets.token_hex(8)}" for name in ("provider_key", "environment", "profile", "stranger")
}
"""What is planted, by where."""
STRANGER_UID = 65534
_PROFILE = """\
description = "{word}"
extends = "extractor"

[imports]
allowed = ["{module}"]
"""


def plant(folder: Path) -> Mapping[str, str]:
    """Put each of them in its place; return the settings that it takes."""
    os.environ["OPENAI_API_KEY"] = PLANTED["provider_key"]
    os.environ["BENCH_SECRET"] = PLANTED["environment"]
    policies = folder / "policies"
    policies.mkdir()
    word = PLANTED["profile"]
    text = _PROFILE.format(word=word, module=word.replace("-", "_"))
    (policies / "planted.toml").write_text(text, encoding="utf-8")
    folder.chmod(0o711)
    return {
        "POLICY_FOLDERS": json.dumps([str(policies)]),
        "SOCKET_MODE": "0666",
        "ACCESS__UIDS": json.dumps([os.getuid(), STRANGER_UID]),
    }


class Stranger:
    """Another user, in a process that is forked before any thread is there; none, where we are not root."""

    def __init__(self, folder: Path, intents: Sequence[Intent]) -> None:
        kinds = {one.kind: one for one in intents}
        self._intents = list(kinds.values())
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_ask, args=(theirs, self._intents), daemon=True)

    def __enter__(self) -> Self:
        """Start the process, where we may be somebody else."""
        if os.getuid() == 0:
            self._process.start()
        return self

    def begin(self, socket: Path) -> None:
        """Have the other user ask."""
        if self._process.pid is not None:
            socket.parent.chmod(0o711)
            self._pipe.send(str(socket))

    def end(self) -> Document:
        """Return what the other user came to."""
        if self._process.pid is None:
            return {"asked": 0, "note": "there was no other user: that takes root"}
        if not self._pipe.poll(300):
            raise TimeoutError("the other user did not come to an end")
        told: Document = self._pipe.recv()
        return told

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()


def strange_words(intent: Intent) -> str:
    """Return a request in the words of the other user."""
    return f"{PLANTED['stranger']}: {intent.words}"


def _ask(pipe: Connection, intents: Sequence[Intent]) -> None:
    """Ask as the other user, one kind after the other, then try to read what is not theirs."""
    os.setgroups([])
    os.setgid(STRANGER_UID)
    os.setuid(STRANGER_UID)
    ids, outcomes = [], []
    with PlainClient(pipe.recv()) as client:
        for intent in intents:
            made = client.generate(
                kind=intent.kind,
                intent=strange_words(intent),
                context=intent.context,
                provider="three",
                max_attempts=4,
            )
            ids.append(made["id"])
            for _ in client.generation_events(made["id"]):
                pass
            outcomes.append(client.generation(made["id"])["outcome"])
        seen = [one["id"] for one in client.generations(limit=100)["generations"]]
        refused = _refused(client)
    pipe.send(
        {
            "asked": len(ids),
            "validated": outcomes.count("validated"),
            "listed_of_others": len(set(seen) - set(ids)),
            "refused": refused,
        }
    )


def _refused(client: PlainClient) -> str:
    """Return how a library entry of the first user is refused."""
    try:
        client.library_entry("right-extractor-quarter", 1)
    except ClientError as problem:
        return problem.code
    return "not at all"


def found_in(asked: Path, prompts: Sequence[str], intents: Sequence[Intent], strange: Document) -> Document:
    """Count the prompts, and requests to a program, that hold what is not theirs."""
    requests = [path.read_text(encoding="utf-8") for path in sorted(asked.iterdir())]
    texts = [*prompts, *requests]
    ours = [*prompts, *(text for text in requests if not _is_strange(text))]
    return {
        "prompts": len(prompts),
        "requests": len(requests),
        "secrets": sum(PLANTED[name] in text for text in texts for name in ("provider_key", "environment")),
        "other_profiles": sum(
            word in text
            for text in texts
            for word in (PLANTED["profile"], PLANTED["profile"].replace("-", "_"))
        ),
        "other_users": sum(PLANTED["stranger"] in text for text in ours),
        "other_requests": sum(_words_in(text, intents) > 1 for text in texts),
        "stranger": strange,
    }


def _is_strange(request: str) -> bool:
    return bool(json.loads(request)["asked"]["intent"].startswith(PLANTED["stranger"]))


def _words_in(text: str, intents: Sequence[Intent]) -> int:
    """Count the requests whose words stand in a text, as they are or as JSON has them."""
    return sum(one.words in text or json.dumps(one.words)[1:-1] in text for one in intents)
