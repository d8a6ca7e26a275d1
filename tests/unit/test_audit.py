from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
from pathlib import Path

import pytest

from assayd import audit
from assayd.audit import AuditLog
from assayd.model import audit_chain
from assayd.model.audit_chain import AuditError

USER: dict[str, object] = {"uid": 1000, "pid": 1}


def written(folder: Path, count: int, **limits: int) -> AuditLog:
    """Return a log with this number of lines."""
    log = AuditLog(folder, **limits)
    for number in range(count):
        log.note("POST /v1/attempts", actor=USER, subject=f"/v1/attempts/{number}")
    return log


def test_lines_follow_each_other_over_a_restart(tmp_path: Path) -> None:
    written(tmp_path, 3).close()
    log = written(tmp_path, 2)

    lines = list(log.read())
    assert [json.loads(line)["subject"] for line in lines] == [f"/v1/attempts/{n}" for n in (0, 1, 2, 0, 1)]
    assert audit_chain.verify_chain(lines).lines == 5
    assert (tmp_path / "audit-000001.jsonl").stat().st_mode & 0o777 == 0o600


def test_lines_follow_each_other_from_file_to_file_and_the_oldest_goes(tmp_path: Path) -> None:
    log = written(tmp_path, 50, file_bytes=1000, files=3)

    names = [file.name for file in audit.list_log_files(tmp_path)]
    assert len(names) == 3
    assert names[0] > "audit-000001.jsonl"
    chain = audit_chain.verify_chain(log.read())
    assert 3 < chain.lines < 50


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_changed_line_shows_at_the_next_one(changed: int, tmp_path: Path) -> None:
    lines = list(written(tmp_path, 4).read())
    lines[changed] = lines[changed].replace(b"1000", b"1001")

    with pytest.raises(AuditError, match=f"line {changed + 2} doesn't follow line {changed + 1}"):
        audit_chain.verify_chain(lines)


def test_removed_line_shows(tmp_path: Path) -> None:
    lines = list(written(tmp_path, 4).read())

    with pytest.raises(AuditError, match="line 2 doesn't follow line 1"):
        audit_chain.verify_chain([lines[0], *lines[2:]])


def test_line_that_a_loss_of_power_has_cut_is_followed_by_the_next(tmp_path: Path) -> None:
    written(tmp_path, 2).close()
    (file,) = audit.list_log_files(tmp_path)
    os.truncate(file, file.stat().st_size - 10)

    lines = list(written(tmp_path, 2).read())

    assert audit_chain.verify_chain(lines).lines == 4
    with pytest.raises(AuditError):
        audit_chain.verify_chain([lines[0], b'{"at":"' + lines[1], *lines[2:]])


def test_only_lines_since_a_time_are_read(tmp_path: Path) -> None:
    lines = list(written(tmp_path, 3).read())
    middle = json.loads(lines[1])["at"]

    assert list(AuditLog(tmp_path).read(since=middle)) == lines[1:]


def test_full_disk_is_logged_and_stops_nothing(tmp_path: Path) -> None:
    log = written(tmp_path, 1)
    log.close()

    log.note("POST /v1/gc", actor=USER, subject="/v1/gc")

    assert audit_chain.verify_chain(log.read()).lines == 1


def test_symbolic_link_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "audit-000001.jsonl").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic"):
        AuditLog(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_line_of_another_process_is_followed_by_the_daemons_next(tmp_path: Path) -> None:
    log = written(tmp_path, 2)
    for number in range(2):
        assert audit.append_audit_line(tmp_path, "image.adopted", actor={"uid": 0}, subject=f"ruby{number}")
    log.note("POST /v1/attempts", actor=USER, subject="last")

    lines = list(log.read())
    assert [json.loads(line)["subject"] for line in lines[2:]] == ["ruby0", "ruby1", "last"]
    assert audit_chain.verify_chain(lines).lines == 5


def test_line_that_does_not_follow_shows_although_the_daemon_goes_on(tmp_path: Path) -> None:
    log = written(tmp_path, 2)
    (file,) = audit.list_log_files(tmp_path)
    with file.open("ab") as opened:
        opened.write(b'{"at":"2026","action":"forged","previous":"0"}\n')
    log.note("POST /v1/attempts", actor=USER, subject="last")

    with pytest.raises(AuditError, match="line 3 doesn't follow line 2"):
        audit_chain.verify_chain(log.read())


def test_line_of_another_process_begins_no_file(tmp_path: Path) -> None:
    """Regression: the daemon, as another user, couldn't write to it."""
    assert not audit.append_audit_line(tmp_path / "nothere", "image.adopted", actor=USER, subject="ruby")
    assert not audit.append_audit_line(tmp_path, "image.adopted", actor=USER, subject="ruby")
    written(tmp_path, 1, file_bytes=10).close()
    assert audit.append_audit_line(tmp_path, "image.adopted", actor=USER, subject="ruby")
    assert len(audit.list_log_files(tmp_path)) == 1


def test_log_goes_on_after_a_file_that_could_not_be_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real = written(tmp_path, 1, file_bytes=10), os.open

    def full(path: Path, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith("000002.jsonl"):
            raise OSError(errno.ENOSPC, "full")
        return real(path, flags, mode)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", full)
        assert not log.note("POST /v1/attempts", actor=USER, subject="lost")

    assert log.note("POST /v1/attempts", actor=USER, subject="kept")
    assert audit_chain.verify_chain(log.read()).lines == 2


def test_line_of_another_process_goes_to_the_file_that_was_begun_meanwhile(tmp_path: Path) -> None:
    log = written(tmp_path, 1, file_bytes=10)
    other = AuditLog(tmp_path, file_bytes=sys.maxsize)
    log.note("POST /v1/attempts", actor=USER, subject="second file")
    other.note("image.adopted", actor={"uid": 0}, subject="ruby")
    log.note("POST /v1/attempts", actor=USER, subject="third file")

    assert audit_chain.verify_chain(log.read()).lines == 4
    assert len(audit.list_log_files(tmp_path)) == 3


def test_folder_that_stays_locked_delays_nothing(tmp_path: Path) -> None:
    log = written(tmp_path, 1)
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert not log.note("POST /v1/attempts", actor=USER, subject="lost")
    os.close(folder)

    assert log.note("POST /v1/attempts", actor=USER, subject="kept")
