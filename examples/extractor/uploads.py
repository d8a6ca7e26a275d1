"""Uploads with an encoded owner and an id: /up/bWFyaWE=/6f1e…-….d/Annual%20report%20(2023).pdf"""

import base64
import hashlib
import re
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote
from uuid import UUID

YEAR = re.compile(r"(?:19|20)\d{2}")


def owner(segment: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)).decode("utf-8")
    except ValueError:
        return None


def identity(segment: str) -> UUID | None:
    try:
        return UUID(segment.removesuffix(".d"))
    except ValueError:
        return None


def extract(path: str) -> dict[str, Any]:
    match PurePosixPath(path).parts:
        case ["/", "up", encoded, folder, name]:
            upload = identity(folder)
        case _:
            return {}
    title = unquote(name)
    year = YEAR.search(title)
    return {
        "owner": owner(unquote(encoded)),
        "upload_id": str(upload) if upload else None,
        "uuid_version": upload.version if upload else None,
        "title": PurePosixPath(title).stem,
        "year": int(year[0]) if year else None,
        "key": hashlib.sha256(path.encode()).hexdigest()[:16],
    }
