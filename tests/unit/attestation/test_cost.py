"""The processor time that a signature adds to an attempt."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from assayd_attestation import signatures
from support.signed import attester, concluded


async def test_signature_takes_at_most_a_millisecond(tmp_path: Path) -> None:
    signatures.create_key_pair(tmp_path / "key")
    signing = attester(tmp_path / "key")
    usual = replace(concluded(), files={f"file_{number}.json": bytes(4096) for number in range(7)})
    took_s = []
    for _ in range(30):
        began = time.thread_time()
        await signing.attest(usual)
        took_s.append(time.thread_time() - began)

    assert min(took_s) < 0.001
