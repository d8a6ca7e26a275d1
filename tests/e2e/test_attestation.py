"""Signed verdicts from a daemon with a key, checked by `assay verify`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from assayd_attestation import signatures
from support.daemons.daemon_fixtures import needs_root, new_daemon
from support.daemons.daemon_process import DaemonProcess
from support.texts.extractors import GOOD, RAISES, extractor

pytestmark = pytest.mark.engine


@pytest.fixture
def key(tmp_path: Path) -> Path:
    signatures.create_key_pair(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def daemon(key: Path) -> Iterator[DaemonProcess]:
    daemon = new_daemon("oci", settings={"ATTESTATION__KEY": str(key), "POOL__DEFAULT_TARGET": "0"})
    daemon.start()
    yield daemon
    daemon.dispose()


@needs_root
def test_verdicts_of_a_daemon_with_a_key_are_verified_and_others_are_not(
    daemon: DaemonProcess, key: Path, tmp_path: Path
) -> None:
    code, lines = tmp_path / "good.py", tmp_path / "items.jsonl"
    code.write_text(GOOD)
    lines.write_text("\n".join(json.dumps(extractor(each)) for each in (GOOD, RAISES)))

    def verify(path: Path, *options: str) -> tuple[int, str]:
        done = daemon.assay("verify", path, "--key", f"{key}.pub", *options)
        return done.returncode, done.stdout + done.stderr

    daemon.assay("validate", "extractor", code, "--sample-path", "/data/ACME/2024/report.csv")
    daemon.assay("artifacts", "last", "--extract", tmp_path / "bundle")
    daemon.assay("batch", "run", lines, "--name", "mixed")
    (tmp_path / "batch.json").write_text(daemon.assay("batch", "attestation", "mixed").stdout)

    assert verify(tmp_path / "bundle", "--policy", "extractor", "--max-age", "1h")[0] == 0
    assert verify(tmp_path / "bundle", "--policy", "strict")[0] == 1
    assert verify(code)[0] == 6
    shutil.copy(tmp_path / "bundle/attestation.json", tmp_path / "good.py.attestation.json")
    assert verify(code)[0] == 0
    code.write_text(GOOD + "\n")
    assert verify(code) == (1, "Doesn't match: the attestation is for code other than good.py\n")
    assert verify(tmp_path / "batch.json", "--batch") == (
        1,
        "Doesn't match: not all items are validated: 1 'failed'\n",
    )
    assert verify(tmp_path / "bundle", "--max-age", "soon")[0] == 2
    assert verify(tmp_path / "nothere")[0] == 2
