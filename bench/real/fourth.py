"""Draws the fourth gathering from public repositories, by rule, and tries it in two halves.

usage: python -m bench.real.fourth draw MIRRORS OUT.jsonl     (git directories at MIRRORS/OWNER+NAME/repo)
       python -m bench.real.fourth try FILE.jsonl SOCKET      (each line under the profiles that it is for)

A candidate is a block of a page that says it is bash or SQL. It is kept if it runs natively: exit status 0
within five seconds, in an empty folder without a network, and something is printed, written or selected. The
first hexadecimal digit of the SHA-256 of its text decides the half: a look at `seen` is allowed, at
`unseen` it isn't.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCES = {
    "bobbyiliev/introduction-to-bash-scripting": ("MIT", r"ebook/en/.*\.md", "bash"),
    "dylanaraps/pure-bash-bible": ("MIT", r".*\.md|manuscript/.*", "bash"),
}
"""Repositories with their license, their pages, and the language of their blocks."""
PROFILES = {"bash": ("pipeline", "contained"), "sql": ("analysis", "contained")}
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAMES = {"bash": {"bash", "sh", ""}, "sql": {"sql"}}
_LIMIT_S = 5


def draw(mirrors: Path) -> Iterator[dict[str, str]]:
    """Return the blocks that run natively, each once."""
    seen: set[str] = set()
    for repository, (license_, pages, language) in SOURCES.items():
        folder = mirrors / repository.replace("/", "+") / "repo"
        for page in _git(folder, "ls-tree", "-r", "--name-only", "HEAD").splitlines():
            for number, (word, text) in enumerate(
                _blocks(folder, page) if re.fullmatch(pages, page) else (), 1
            ):
                digest = hashlib.sha256(text.encode()).hexdigest()
                if word not in _NAMES[language] or digest in seen or not _runs(language, text):
                    continue
                seen.add(digest)
                half = "seen" if int(digest[0], 16) < 8 else "unseen"
                source = f"{repository}:{page}#{number}"
                yield {"source": source, "license": license_, "type": language, "half": half, "text": text}


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", f"--git-dir={folder}", *arguments], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def _blocks(folder: Path, page: str) -> list[tuple[str, str]]:
    return _BLOCK.findall(_git(folder, "show", f"HEAD:{page}"))


def _runs(language: str, text: str) -> bool:
    return _runs_in_sqlite(text) if language == "sql" else _runs_in_bash(text)


def _runs_in_sqlite(text: str) -> bool:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.executescript(text)
    except (sqlite3.Error, sqlite3.Warning):
        return False
    return bool(text.strip())


def _runs_in_bash(text: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        isolated = ["unshare", "--net", "bash", "--noprofile", "--norc", "-c", text]
        try:
            done = subprocess.run(
                isolated,
                check=False,
                cwd=folder,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return False
        made = any(Path(folder).iterdir())
    complained = b"command not found" in done.stderr or b"syntax error" in done.stderr
    return done.returncode == 0 and not complained and (bool(done.stdout) or made or "()" in text)


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=180)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(180)
        self.sock.connect(self._path)


def attempt(item: dict[str, str], profile: str, path: str) -> tuple[str, list[tuple[str, bool]]]:
    """Submit a block as a step; return the verdict, and each rule with whether the profile states it."""
    payload: dict[str, object] = {"steps": [{"name": "s", "type": item["type"], "content": item["text"]}]}
    if item["type"] == "sql":
        payload["database"] = {"schema_sql": "CREATE TABLE before_it (a);"}
    connection = _Unix(path)
    body = json.dumps({"kind": "pipeline", "policy": profile, "payload": payload})
    connection.request("POST", "/v1/attempts?wait_s=120", body, {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    findings = (answer.get("report") or {}).get("findings", [])
    errors = [(one["rule"], bool(one["profile_key"])) for one in findings if one["severity"] == "error"]
    return answer.get("verdict") or "refused", errors


def main() -> None:
    """Draw, or try."""
    if sys.argv[1] == "draw":
        Path(sys.argv[3]).write_text("".join(f"{json.dumps(one)}\n" for one in draw(Path(sys.argv[2]))))
        return
    items = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
    for language, profiles in PROFILES.items():
        for profile in profiles:
            for half in ("seen", "unseen"):
                some = [one for one in items if (one["type"], one["half"]) == (language, half)]
                tried = [attempt(one, profile, sys.argv[3]) for one in some]
                failed = [errors for verdict, errors in tried if verdict != "validated"]
                stated = sum(any(keyed for _, keyed in errors) for errors in failed)
                good = len(some) - len(failed)
                print(
                    f"{language} {profile} {half}: {good} of {len(some)}; "
                    f"{stated} of {len(failed)} by the profile"
                )
                if half == "seen":
                    rules = Counter(rule for errors in failed for rule in dict(errors))
                    print("  ", dict(rules.most_common(12)))


if __name__ == "__main__":
    main()
