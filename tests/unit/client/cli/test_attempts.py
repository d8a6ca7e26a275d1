import hashlib
import json
import os
import stat
import sys
from dataclasses import replace

import pytest

from assayd.api import SocketAccess
from assayd.errors import StoreError
from assayd_client import PlainClient
from assayd_client.cli import main
from assayd_client.cli.terminal import TerminalOutput, print_table
from assayd_client.cli.texts import to_safe_path
from support.daemons.fake_service import FakeService
from support.daemons.server import serving


def test_list_is_tabs_when_piped(assay, finished, capsys) -> None:
    assert assay("list", "--limit", "5") == 0
    cells = capsys.readouterr().out.rstrip("\n").split("\t")
    assert cells[:4] == [finished, "extractor", "validated", "2026-05-04T10:20:30Z"]


def test_list_as_json_is_the_page(assay, finished, capsys) -> None:
    assert assay("list", "--json", "--label", "a=b", "--label", "c=d") == 0
    assert json.loads(capsys.readouterr().out)["attempts"][0]["id"] == finished


def test_list_sends_its_filters(assay, service, capsys) -> None:
    assert assay("list", "--verdict", "failed", "--label", "a=b", "--since", "2026-01-01T00:00:00Z") == 0
    assert assay("list", "--cause", "timeout", "--rule", "case.failed", "--uid", str(os.getuid())) == 0
    query, other = service.queries
    assert (query.verdict, query.labels, query.since.year) == ("failed", (("a", "b"),), 2026)
    assert (other.cause, other.rule, other.uid) == ("timeout", "case.failed", os.getuid())


def test_show_prints_the_report(assay, finished, capsys) -> None:
    assert assay("show", finished) == 0
    shown = capsys.readouterr().out
    assert "Validation: ✓ Passed with warnings (2/2 paths, avg 2.3ms)" in shown
    assert "\x1b" not in shown


def test_show_of_an_attempt_that_waits_says_so(assay, socket, capsys) -> None:
    with PlainClient(socket) as client:
        attempt = client.submit({"kind": "extractor", "payload": {"code": "x"}})["id"]
    assert assay("show", attempt) == 0
    assert "Not finished yet: queued" in capsys.readouterr().out


def test_logs_are_the_output_of_the_bundle(assay, finished, capsys) -> None:
    assert assay("logs", finished, "--stream", "stdout") == 0
    assert capsys.readouterr().out == "no client\n"


def test_logs_of_an_attempt_that_runs_are_followed(assay, service, socket, capsys) -> None:
    service.scripted = [("stdout", {"text": "one\n"}), ("stderr", {"text": "two\n"}), ("finished", {})]
    with PlainClient(socket) as client:
        attempt = client.submit({"kind": "extractor", "payload": {"code": "x"}})["id"]
    assert assay("logs", attempt) == 0
    assert capsys.readouterr().out == "one\ntwo\n"


def test_events_are_lines_or_json(assay, finished, capsys) -> None:
    assert assay("events", finished) == 0
    assert capsys.readouterr().out.splitlines()[0] == "10:20:30.000 state    state=running"
    assert assay("events", finished, "--json") == 0
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["state", "finished"]


def test_events_of_all_attempts_name_theirs(assay, service, capsys) -> None:
    service.scripted_for_all = [("01JTC8ZK5V7777777777777777", "state", {"state": "queued"})]
    assert assay("events", "--follow") == 0
    assert capsys.readouterr().out == "01JTC8ZK5V7777777777777777 10:20:30.000 state    state=queued\n"
    assert assay("events", "--json") == 0
    assert json.loads(capsys.readouterr().out)["attempt_id"] == "01JTC8ZK5V7777777777777777"
    assert assay("events", "x", "--follow") == 2


def test_cancel_of_a_finished_attempt_is_refused(assay, finished, capsys) -> None:
    assert assay("cancel", finished) == 2
    assert capsys.readouterr().err == "assay: the attempt is finished\n"


def test_an_attempt_that_is_not_there_is_refused(assay, capsys) -> None:
    assert assay("show", "nothing") == 2
    assert capsys.readouterr().err == "assay: attempt nothing doesn't exist\n"


def test_artifacts_are_extracted_and_checked(assay, service, finished, tmp_path, capsys) -> None:
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in service.files.items()}
    redigest(service, finished, digests)
    target = tmp_path / "out"
    assert assay("artifacts", finished, "--extract", str(target)) == 0
    assert {
        p.relative_to(target).as_posix(): p.read_bytes() for p in target.rglob("*") if p.is_file()
    } == service.files
    assert not (target / "stdout.log").stat().st_mode & stat.S_IXUSR
    assert assay("artifacts", finished, "--extract", str(target)) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_damaged_artifact_is_trouble(assay, finished, tmp_path, capsys) -> None:
    assert assay("artifacts", finished, "--extract", str(tmp_path / "out")) == 3
    assert "doesn't match its digest" in capsys.readouterr().err


def redigest(service, attempt_id, digests) -> None:
    attempt = service.attempts[attempt_id]
    artifacts = tuple(replace(a, sha256=digests[a.name]) for a in attempt.artifacts)
    service.attempts[attempt_id] = replace(attempt, artifacts=artifacts)


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", "", "a\x00b", "..", "a\\..\\b"])
def test_a_name_that_leads_out_is_refused(name: str) -> None:
    with pytest.raises(StoreError):
        to_safe_path(name)


def test_policies_are_listed_and_shown(assay, capsys) -> None:
    assert assay("policy", "list") == 0
    assert capsys.readouterr().out == "extractor\t60s\t5s\t100MB\t1\tFor extractors\n"
    assert assay("policy", "show", "extractor") == 0
    assert "resources.memory_mb\t100\t\n" in capsys.readouterr().out
    assert assay("policy", "show", "nothing") == 2


def test_value_of_a_policy_is_shown_with_the_line_that_states_it(assay, service, capsys) -> None:
    place = {"profile": "mine", "file": "/etc/assayd/policies/mine.toml", "line": 3}
    service.profiles["mine"] = {"name": "mine", "image": "x", "origins": {"image": [place]}}
    assert assay("policy", "show", "mine") == 0
    assert capsys.readouterr().out == "name\tmine\t\nimage\tx\tmine.toml:3\n"


def test_a_policy_file_is_checked_with_line_numbers(tmp_path, capsys) -> None:
    bad = tmp_path / "mine.toml"
    bad.write_text('description = "x"\n[resources]\ntimeout_s = "soon"\n')
    assert main(["policy", "check", "--local", str(bad)]) == 1
    assert f"{bad}:3:" in capsys.readouterr().err


def test_a_policy_file_may_build_on_the_operators_own(tmp_path, monkeypatch, capsys) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "ours.toml").write_text('extends = "default"\n')
    monkeypatch.setenv("ASSAYD_POLICY_FOLDERS", json.dumps([str(folder)]))
    (tmp_path / "mine.toml").write_text('extends = "ours"\n')
    assert main(["policy", "check", "--local", str(tmp_path / "mine.toml")]) == 0


def test_without_a_file_all_profiles_are_checked(tmp_path, monkeypatch, capsys) -> None:
    assert main(["policy", "check", "--local"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "all profiles: valid",
        "integration_test: the allowlist is empty, so all network access is refused",
        "loopback: the allowlist is empty, so all network access is refused",
    ]
    (tmp_path / "bad.toml").write_text("[resources]\ntimeout_s = 'soon'\n")
    monkeypatch.setenv("ASSAYD_POLICY_FOLDERS", json.dumps([str(tmp_path)]))
    assert main(["policy", "check", "--local"]) == 1
    assert "bad.toml:2:" in capsys.readouterr().err


def test_what_is_copied_from_a_table_is_never_cut(capsys) -> None:
    name = "validation_20260301T120000.000000Z.json"
    print_table(TerminalOutput(sys.stdout, width=60), ("name", "sha256"), [[name, "0" * 64]])
    assert name in capsys.readouterr().out


def test_doctor_shows_each_check(assay, service, capsys) -> None:
    assert assay("doctor") == 0
    assert (
        capsys.readouterr().out.splitlines()[1] == "warn\tcanary\tnot run yet\twait, or restart the daemon\t"
    )


def test_metrics_are_passed_through(assay, capsys) -> None:
    assert assay("metrics") == 0
    assert capsys.readouterr().out == "assayd_attempts_total 1.0\n"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_socket_option_may_stand_anywhere(socket, place, capsys) -> None:
    words = ["policy", "list"]
    words[place:place] = ["--socket", socket]
    assert main(words) == 0
    assert main(["policy", "list", f"--socket={socket}"]) == 0


def test_the_socket_comes_from_the_environment(socket, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ASSAY_SOCKET", socket)
    assert main(["metrics"]) == 0


def test_without_a_daemon_it_says_which_socket_and_what_to_do(tmp_path, capsys) -> None:
    assert main(["--socket", str(tmp_path / "none"), "list"]) == 4
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{tmp_path}/none (--socket): the socket doesn't exist; start it with `make serve`" in said


def test_a_user_who_is_not_admitted_is_refused(tmp_path, capsys, monkeypatch) -> None:
    with serving(FakeService(), tmp_path / "s", access=NobodyAccess()) as path:
        assert main(["--socket", str(path), "list"]) == 2
    assert capsys.readouterr().err == "assay: this user isn't allowed to use the daemon\n"


class NobodyAccess(SocketAccess):
    def admits(self, caller) -> bool:
        return False


@pytest.mark.parametrize(
    "words", [["nonsense"], ["show"], ["list", "--limit", "0"], ["logs", "x", "--stream", "y"]]
)
def test_bad_usage_is_two(words, capsys) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err
