from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from assayd.model.policy import Enforcement
from assayd.model.report import Verdict
from assayd.ports.attesting import ATTESTATION
from assayd_attestation import keys
from assayd_attestation.verifying import MismatchError, UnsignedError, Wanted, verify
from support.signed import CODE, NOW, Signed, attester, concluded, signed_bundle


@pytest.fixture
async def signed(tmp_path: Path) -> Signed:
    return await signed_bundle(tmp_path)


def packed(signed: Signed) -> Path:
    """Return the bundle as the archive that the daemon sends."""
    archive = signed.folder.with_suffix(".tar")
    with tarfile.open(archive, "w") as opened:
        opened.add(signed.folder, "20260101T000000_01A")
    return archive


@pytest.mark.parametrize("place", ["folder", "archive"])
def test_bundle_as_it_was_written_verifies(signed: Signed, place: str) -> None:
    verified = verify(signed.folder if place == "folder" else packed(signed), signed.keys)

    assert verified.predicate["verdict"] == "validated"
    assert verified.predicate["daemon"]["name"] == "judge-1"


def change(folder: Path) -> None:
    (folder / "stdout_1.log").write_text("other")


def remove(folder: Path) -> None:
    (folder / "files/out.csv").unlink()


def add(folder: Path) -> None:
    (folder / "more.txt").write_text("more")


def link(folder: Path) -> None:
    (folder / "stdout_1.log").unlink()
    (folder / "stdout_1.log").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (change, "stdout_1.log was changed after it was signed"),
        (remove, "files/out.csv is missing"),
        (add, "more.txt was added"),
        (link, "stdout_1.log is not a regular file"),
    ],
)
@pytest.mark.parametrize("place", ["folder", "archive"])
def test_bundle_that_was_tampered_with_does_not_match(
    signed: Signed, tamper: Callable[[Path], None], reason: str, place: str
) -> None:
    tamper(signed.folder)
    path = signed.folder if place == "folder" else packed(signed)

    with pytest.raises(MismatchError, match=reason if place == "folder" else reason.partition(" is not")[0]):
        verify(path, signed.keys)


def test_archive_with_a_file_twice_does_not_match(signed: Signed) -> None:
    archive = packed(signed)
    with tarfile.open(archive, "a") as opened:
        opened.add(signed.folder / "stdout_1.log", "20260101T000000_01A/stdout_1.log")

    with pytest.raises(MismatchError, match="twice"):
        verify(archive, signed.keys)


def test_bundle_without_attestation_is_unsigned(signed: Signed) -> None:
    (signed.folder / ATTESTATION).unlink()

    with pytest.raises(UnsignedError, match=r"has no attestation\.json"):
        verify(signed.folder, signed.keys)


def test_bundle_signed_by_another_daemon_does_not_match(signed: Signed, tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match="not by this key"):
        verify(signed.folder, [keys.create(tmp_path / "other")])


async def test_failed_verdict_does_not_match(tmp_path: Path) -> None:
    failed = await signed_bundle(tmp_path, Verdict.FAILED)

    with pytest.raises(MismatchError, match="the verdict is 'failed'"):
        verify(failed.folder, failed.keys)


async def test_verdict_of_a_reporting_profile_matches_only_if_that_is_accepted(
    tmp_path: Path,
) -> None:
    reported = await signed_bundle(tmp_path, enforcement=Enforcement.REPORT)

    with pytest.raises(MismatchError, match="only reported broken rules"):
        verify(reported.folder, reported.keys)
    assert verify(reported.folder, reported.keys, wanted=Wanted(reported=True))


def test_file_verifies_with_the_attestation_next_to_it(signed: Signed, tmp_path: Path) -> None:
    code = tmp_path / "node.py"
    code.write_text(CODE)
    shutil.copy(signed.folder / ATTESTATION, tmp_path / "node.py.attestation.json")

    assert verify(code, signed.keys).subject == "node.py"


def test_attestation_is_not_taken_for_other_code(signed: Signed, tmp_path: Path) -> None:
    code = tmp_path / "node.py"
    code.write_text(CODE + "import os\n")

    with pytest.raises(MismatchError, match=r"for other code than node\.py"):
        verify(code, signed.keys, attestation=signed.folder / ATTESTATION)


def test_file_without_an_attestation_is_unsigned(signed: Signed, tmp_path: Path) -> None:
    (tmp_path / "node.py").write_text(CODE)

    with pytest.raises(UnsignedError, match=r"node\.py\.attestation\.json doesn't exist"):
        verify(tmp_path / "node.py", signed.keys)


@pytest.mark.parametrize("policy", ["code", "ab" * 32])
def test_verdict_of_the_demanded_policy_verifies(signed: Signed, policy: str) -> None:
    assert verify(signed.folder, signed.keys, wanted=Wanted(policy=policy))


def test_verdict_of_another_policy_does_not_match(signed: Signed) -> None:
    with pytest.raises(MismatchError, match="judged by the policy 'code'"):
        verify(signed.folder, signed.keys, wanted=Wanted(policy="strict"))


def test_verdict_that_is_too_old_or_from_the_future_does_not_match(signed: Signed) -> None:
    week = Wanted(max_age=timedelta(days=7))

    assert verify(signed.folder, signed.keys, wanted=week, now=NOW + timedelta(days=7))
    with pytest.raises(MismatchError, match="7 days and 1 hours old"):
        verify(signed.folder, signed.keys, wanted=week, now=NOW + timedelta(days=7, hours=1))
    with pytest.raises(MismatchError, match="from the future"):
        verify(signed.folder, signed.keys, wanted=week, now=NOW - timedelta(hours=1))


async def test_attestation_of_an_attempt_is_not_taken_for_a_batch(signed: Signed, tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_bytes(await attester(signed.key).attest(concluded()))

    with pytest.raises(MismatchError, match="of another type"):
        verify(tmp_path / "batch.json", signed.keys)
