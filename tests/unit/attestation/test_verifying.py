from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from assayd.model.attempt import ATTESTATION, Attempt
from assayd.model.batch import Batch, BatchItem
from assayd.model.policy import Enforcement
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd_attestation import signatures, verifying
from assayd_attestation.verifying import (
    MismatchError,
    UnsignedError,
    Wanted,
    verify,
    verify_batch,
    verify_submission,
)
from support.signed import CODE, NOW, Signed, attester, concluded, signed_bundle
from support.stores.stored_attempts import Make


@pytest.fixture
async def signed(tmp_path: Path) -> Signed:
    return await signed_bundle(tmp_path)


def test_bundle_as_it_was_written_verifies(signed: Signed) -> None:
    verified = verify(signed.folder, signed.keys)

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
def test_bundle_that_was_tampered_with_does_not_match(
    signed: Signed, tamper: Callable[[Path], None], reason: str
) -> None:
    tamper(signed.folder)

    with pytest.raises(MismatchError, match=reason):
        verify(signed.folder, signed.keys)


def test_bundle_without_attestation_is_unsigned(signed: Signed) -> None:
    (signed.folder / ATTESTATION).unlink()

    with pytest.raises(UnsignedError, match=r"has no attestation\.json"):
        verify(signed.folder, signed.keys)


def test_bundle_signed_by_another_daemon_does_not_match(signed: Signed, tmp_path: Path) -> None:
    with pytest.raises(MismatchError, match="not by this key"):
        verify(signed.folder, [signatures.create_key_pair(tmp_path / "other")])


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

    with pytest.raises(MismatchError, match=r"for code other than node\.py"):
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


@pytest.mark.parametrize(
    ("time", "error"),
    [("2026-11-27T06:00:00", "no time zone"), ("yesterday", "when it was made"), (None, "when")],
)
async def test_age_needs_a_time_with_a_zone(
    signed: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: object, error: str
) -> None:
    await write_batch(tmp_path / "b.json", signed.key, [item(1)])
    read = verifying._get_predicate
    monkeypatch.setattr(verifying, "_get_predicate", lambda opened: {**read(opened), "validatedAt": time})

    with pytest.raises(MismatchError, match=error):
        verify_batch(tmp_path / "b.json", signed.keys, wanted=Wanted(max_age=timedelta(days=7)))


async def test_attestation_of_an_attempt_is_not_taken_for_a_batch(signed: Signed, tmp_path: Path) -> None:
    (tmp_path / "batch.json").write_bytes(await attester(signed.key).attest(concluded()))

    with pytest.raises(MismatchError, match="of another type"):
        verify_batch(tmp_path / "batch.json", signed.keys)


async def test_batch_is_not_taken_for_the_attestation_of_a_file(signed: Signed, tmp_path: Path) -> None:
    (tmp_path / "node.py").write_text(CODE)
    await write_batch(tmp_path / "b.json", signed.key, [item(1)])

    with pytest.raises(MismatchError, match="of another type"):
        verify(tmp_path / "node.py", signed.keys, attestation=tmp_path / "b.json")


def test_verdict_of_another_kind_does_not_match(signed: Signed) -> None:
    assert verify(signed.folder, signed.keys, wanted=Wanted(kind="code"))
    with pytest.raises(MismatchError, match="judged as 'code'"):
        verify(signed.folder, signed.keys, wanted=Wanted(kind="extractor"))


@pytest.mark.parametrize(
    ("place", "name", "matches"),
    [
        ("code", "any.py", True),
        ("files.adapter.py", "adapter.py", True),
        ("files.data.txt", "adapter.py", False),
        ("steps.0.content", "clean.sh", True),
    ],
)
async def test_text_of_a_module_is_a_file_of_its_own_name_only(
    signed: Signed, tmp_path: Path, place: str, name: str, matches: bool
) -> None:
    envelope = await attester(signed.key).attest(replace(concluded(), sources=[(place, CODE)]))
    (tmp_path / "a.json").write_bytes(envelope)
    (tmp_path / name).write_text(CODE)

    if matches:
        assert verify(tmp_path / name, signed.keys, attestation=tmp_path / "a.json")
    else:
        with pytest.raises(MismatchError, match="code other"):
            verify(tmp_path / name, signed.keys, attestation=tmp_path / "a.json")


@pytest.mark.parametrize("cookie", ["# -*- coding: unicode_escape -*-", "#!/usr/bin/python\n# coding=utf_7"])
async def test_text_that_python_reads_otherwise_as_a_file_is_not_signed(
    signed: Signed, tmp_path: Path, cookie: str
) -> None:
    text = f"{cookie}\n# \\u000aimport os\n"
    envelope = await attester(signed.key).attest(replace(concluded(), sources=[("code", text)]))
    (tmp_path / "a.json").write_bytes(envelope)
    (tmp_path / "code.py").write_text(text)

    with pytest.raises(MismatchError, match="code other"):
        verify(tmp_path / "code.py", signed.keys, attestation=tmp_path / "a.json")


async def test_text_with_the_usual_encoding_is_signed(signed: Signed, tmp_path: Path) -> None:
    text = "# -*- coding: UTF-8 -*-\nresult: int = 1\n"
    envelope = await attester(signed.key).attest(replace(concluded(), sources=[("code", text)]))
    (tmp_path / "a.json").write_bytes(envelope)
    (tmp_path / "code.py").write_text(text)

    assert verify(tmp_path / "code.py", signed.keys, attestation=tmp_path / "a.json")


def item(
    line: int, verdict: Verdict = Verdict.VALIDATED, enforcement: Enforcement = Enforcement.ENFORCE
) -> tuple[BatchItem, Attempt]:
    """Return an item of a batch with its attempt."""
    attempt = Make().finished(line, verdict=verdict, enforcement=enforcement)
    return BatchItem(line=line, input_digest="ef" * 32, attempt_id=attempt.id, verdict=verdict), attempt


async def write_batch(file: Path, key: Path, items: list[tuple[BatchItem, Attempt]]) -> None:
    """Write the attestation of a batch."""
    peer = Peer(uid=1, gid=1, pid=1)
    batch = Batch(id="01B", name="nightly", peer=peer, created_at=NOW, concurrency=1, finished_at=NOW)
    file.write_bytes(await attester(key).attest_batch(batch, items))


async def test_batch_whose_items_are_all_validated_verifies(signed: Signed, tmp_path: Path) -> None:
    await write_batch(tmp_path / "b.json", signed.key, [item(1), item(2)])

    verified = verify_batch(tmp_path / "b.json", signed.keys, wanted=Wanted(kind="code", policy="code"))

    assert verified.predicate["verdicts"] == {"validated": 2}


@pytest.mark.parametrize(
    ("items", "wanted", "reason"),
    [
        ([], Wanted(), "no items"),
        ([item(1), item(2, Verdict.FAILED)], Wanted(), "not all items are validated: 1 'failed'"),
        ([item(1), item(2, enforcement=Enforcement.REPORT)], Wanted(), "only reported broken rules"),
        ([item(1)], Wanted(policy="strict"), "judged by the policy 'code'"),
        ([item(1)], Wanted(kind="script"), "judged as 'code'"),
        ([item(1)], Wanted(max_age=timedelta(hours=1)), "hours old"),
    ],
)
async def test_batch_that_is_not_as_demanded_does_not_match(
    signed: Signed, tmp_path: Path, items: list[tuple[BatchItem, Attempt]], wanted: Wanted, reason: str
) -> None:
    await write_batch(tmp_path / "b.json", signed.key, items)

    with pytest.raises(MismatchError, match=reason):
        verify_batch(tmp_path / "b.json", signed.keys, wanted=wanted, now=NOW + timedelta(days=1))


async def test_item_whose_attempt_is_gone_matches_only_if_reporting_profiles_do(
    signed: Signed, tmp_path: Path
) -> None:
    kept, _ = item(1)
    await write_batch(tmp_path / "b.json", signed.key, [(kept, None)])  # type: ignore[list-item]

    with pytest.raises(MismatchError, match="only reported"):
        verify_batch(tmp_path / "b.json", signed.keys)
    assert verify_batch(tmp_path / "b.json", signed.keys, wanted=Wanted(reported=True))


def test_attestation_of_a_submission_is_verified_by_its_digest(signed: Signed) -> None:
    envelope = (signed.folder / ATTESTATION).read_bytes()
    subjects = verify(signed.folder, signed.keys).statement["subject"]
    assert isinstance(subjects, list)

    verified = verify_submission(envelope, subjects[0]["digest"]["sha256"], signed.keys)

    assert verified.predicate["verdict"] == "validated"
    with pytest.raises(MismatchError, match="it is for another submission"):
        verify_submission(envelope, "0" * 64, signed.keys)
