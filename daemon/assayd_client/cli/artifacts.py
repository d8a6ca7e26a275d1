"""Fetch the files of a bundle, and write them where nothing can be overwritten or escaped from."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from assayd.errors import RequestError, StoreError
from assayd_client import Document, PlainClient


def extract(client: PlainClient, attempt: Document, folder: Path) -> list[Path]:
    """Write all files of an attempt's bundle into a new or empty folder.

    Each is fetched by itself and held against its digest; archives are not unpacked.

    Raises:
        RequestError: ``extract.folder``, when the folder is in use.
        StoreError: ``artifact.damaged`` or ``artifact.name``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise RequestError("extract.folder", f"{folder} is not empty")
        return [_write(client, attempt["id"], artifact, folder) for artifact in attempt["artifacts"]]
    except OSError as error:
        raise RequestError("extract.folder", f"{error.filename}: {error.strerror}") from error


def logs(client: PlainClient, attempt: Document, stream: str) -> bytes:
    """Return one output stream of a finished attempt, as its bundle has it."""
    names = [a["name"] for a in attempt["artifacts"] if a["name"].startswith(stream)]
    return b"".join(client.artifact(attempt["id"], name) for name in names)


def _write(client: PlainClient, attempt_id: str, artifact: Document, folder: Path) -> Path:
    target = folder / safe_name(artifact["name"])
    content = client.artifact(attempt_id, artifact["name"])
    if hashlib.sha256(content).hexdigest() != artifact["sha256"]:
        raise StoreError("artifact.damaged", f"{artifact['name']} is not what its digest says")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        file.write(content)
    return target


def safe_name(name: str) -> PurePosixPath:
    """Return a name that stays inside the folder.

    Raises: StoreError ``artifact.name``.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\x00" in name or "\\" in name:
        raise StoreError("artifact.name", f"the name {name!r} leads out of the folder")
    return path
