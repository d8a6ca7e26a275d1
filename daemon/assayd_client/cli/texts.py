"""Reads the texts of a submission, writes them to files, and opens them in the user's editor."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from assayd.errors import RequestError, StoreError
from assayd_client import Document, NotFound, PlainClient


def fetch_stored_submission(client: PlainClient, attempt: Document) -> Document | None:
    """Return the submission from an attempt's bundle, or None if it isn't stored."""
    names = [each["name"] for each in attempt["artifacts"] or ()]
    name = next((name for name in names if name.startswith("submission_")), None)
    try:
        return None if name is None else json.loads(client.artifact(attempt["id"], name))
    except NotFound:  # the bundle was removed meanwhile
        return None


def get_submission_texts(submission: Document) -> dict[str, str]:
    """Return the code, files or steps of a submission as texts by name. A single text has no name."""
    payload = submission["payload"]
    single = payload.get("code", payload.get("text"))
    if isinstance(single, str):
        return {"": single}
    if "steps" in payload:
        return dict(_iter_step_texts(payload["steps"]))
    texts = {name: text for name, text in payload.get("files", {}).items() if isinstance(text, str)}
    if payload.get("manifest"):
        texts["manifest.json"] = json.dumps(payload["manifest"], indent=1, sort_keys=True) + "\n"
    return texts


def _iter_step_texts(steps: Sequence[Document]) -> Iterator[tuple[str, str]]:
    for number, step in enumerate(steps, 1):
        stem = re.sub(r"[^a-z0-9]+", "_", step["name"].lower()).strip("_") or "step"
        yield f"{number:02d}_{stem}.{'sh' if step['type'] == 'bash' else 'sql'}", step["content"]


def write_texts(texts: Mapping[str, str], out: Path) -> None:
    """Write one text to a file, or several texts below a folder.

    Raises: RequestError ``file.unwritable``, if a file can't be written; StoreError ``artifact.name``, if a
    name points outside the folder.
    """
    try:
        for name, text in texts.items():
            path = out / to_safe_path(name) if name else out
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RequestError("file.unwritable", f"{out}: {error.strerror}") from error


def edited(texts: Mapping[str, str]) -> dict[str, str]:
    """Open the texts in the user's editor and return the edited texts.

    Raises: RequestError ``editor.failed``, if the editor can't be started or exits with an error.
    """
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        paths = {name: Path(folder, to_safe_path(name) if name else "code.py") for name in texts}
        for name, path in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[name], encoding="utf-8")
        try:
            done = subprocess.run([*editor, *map(str, paths.values())], check=False)
            if done.returncode != 0:
                raise RequestError("editor.failed", f"{editor[0]} exited with status {done.returncode}")
            return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
        except (OSError, UnicodeDecodeError) as problem:
            raise RequestError("editor.failed", f"{editor[0]}: {problem}") from problem


def to_safe_path(name: str) -> PurePosixPath:
    """Return a file name as a relative path that stays inside the folder.

    Raises: StoreError ``artifact.name``, if the name points outside the folder.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\x00" in name or "\\" in name:
        raise StoreError("artifact.name", f"the name {name!r} points outside the folder")
    return path
