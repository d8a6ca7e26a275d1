"""Servers that speak S3 for the tests of this process, and bundles in their bucket.

A server is started when a test first asks for it, and ended by a process that waits for the end of this one,
whatever that is. The bucket is emptied before each test.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp

import obstore
import pytest
from obstore.store import S3Store

from assayd_cluster.bundles import open_bundles
from assayd_cluster.bundles.verified import VerifiedArtifactStore
from assayd_cluster.settings import BundleSettings

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "deploy/dev/s3.sh"
KINDS = ["moto", "s3rver"]
_END = 'read -r _; "$0" stop "$1" "$2"; rm -rf -- "$2"'


class ObjectStorage:
    """A server for tests, with the bucket "assayd", that can be killed and restarted."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder

    def start(self) -> None:
        """Start the server unless it runs."""
        done = subprocess.run(
            [SCRIPT, "start", self.kind, self.folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode != 0:
            pytest.fail(f"{self.kind} does not start: {done.stderr.strip()}", pytrace=False)

    def kill(self) -> None:
        """Kill the server."""
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)

    def settings(self, **changes: object) -> BundleSettings:
        """Return a gateway's settings for this server."""
        named = {"endpoint": self._text("endpoint"), "access_key_file": self.folder / "access_key"}
        named |= {"kind": "s3", "secret_key_file": self.folder / "secret_key", **changes}
        return BundleSettings.model_validate(named)

    def open(self, **changes: object) -> VerifiedArtifactStore:
        """Return the server's bundles, opened like a gateway's."""
        return open_bundles(self.settings(**changes), self.folder)

    def bucket(self) -> S3Store:
        """Return the bucket, for changes without a gateway's knowledge."""
        return S3Store(
            "assayd",
            endpoint=self._text("endpoint"),
            region="us-east-1",
            access_key_id=self._text("access_key"),
            secret_access_key=self._text("secret_key"),
            client_options={"allow_http": True},
            retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=5)},
        )

    def empty(self) -> None:
        """Delete everything in the bucket."""
        bucket = self.bucket()
        if names := [each["path"] for page in obstore.list(bucket) for each in page]:
            obstore.delete(bucket, names)

    def _text(self, name: str) -> str:
        return (self.folder / name).read_text().strip()


@contextmanager
def _running(kind: str) -> Iterator[ObjectStorage]:
    (ROOT / ".run").mkdir(exist_ok=True)
    folder = Path(mkdtemp(prefix="s3-", dir=ROOT / ".run"))
    ending = subprocess.Popen(
        ["bash", "-c", _END, SCRIPT, kind, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    storage = ObjectStorage(kind, folder)
    try:
        storage.start()
        yield storage
    finally:
        assert ending.stdin is not None
        ending.stdin.close()
        ending.wait(60)


@pytest.fixture(scope="session")
def moto() -> Iterator[ObjectStorage]:
    """Return a server that keeps objects in memory and checks signatures."""
    with _running("moto") as storage:
        yield storage


@pytest.fixture(scope="session")
def s3rver() -> Iterator[ObjectStorage]:
    """Return a server that keeps objects as files."""
    with _running("s3rver") as storage:
        yield storage


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.cluster) for kind in KINDS])
def object_storage(request: pytest.FixtureRequest) -> ObjectStorage:
    """Return each server in turn, with an empty bucket."""
    storage: ObjectStorage = request.getfixturevalue(request.param)
    storage.start()
    storage.empty()
    return storage
