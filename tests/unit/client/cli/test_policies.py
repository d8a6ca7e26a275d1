"""`assay policy check` and `explain` on allowlists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assayd.policies import describe_policy
from assayd.settings import load_settings
from assayd.wiring.profiles import load_profiles
from assayd_client import Document
from assayd_client.cli import main
from assayd_client.cli.policy import explain_access

REACH = """
[network]
mode = "allowlist"
hosts = ["api.example.com", ".example.org"]
ports = [443, 80]

[network.http."status.example.net"]
methods = ["GET"]
paths = ["/v1/"]
"""


def document(name: str, *, egress: bool = True) -> Document:
    """Return a profile in the daemon's form."""
    return describe_policy(load_profiles(load_settings()).get(name), egress=egress)


@pytest.fixture
def reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "reach.toml"
    path.write_text(REACH)
    monkeypatch.setenv("ASSAYD_POLICY_FOLDERS", json.dumps([str(tmp_path)]))
    return path


def test_check_says_what_a_list_allows(reach: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", "--local", str(reach)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "reach: all subdomains of example.org, port 80, 443: TLS, and plain HTTP with any method and path",
        "reach: api.example.com, port 80, 443: TLS, and plain HTTP with any method and path",
        "reach: status.example.net, port 80, 443: plain HTTP only, GET, /v1/",
    ]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["https://api.example.com/x"], "network.listed"),
        (["http://a.example.org/x"], "network.listed"),
        (["http://status.example.net/v1/x"], "network.listed"),
        (["https://status.example.net/v1/x"], "network.http_only"),
        (["http://status.example.net/v1/x", "--method", "PUT"], "network.method_not_listed"),
        (["https://api.example.com:8443/"], "network.port_not_listed"),
        (["https://evil.example/"], "network.not_listed"),
        (["https://10.0.0.1/"], "network.address_literal"),
        (["https://user@api.example.com/"], "network.user_in_url"),
        (["https://user:443@api.example.com/"], "network.user_in_url"),
        (["http://user:word@api.example.com/"], "network.user_in_url"),
        (["https://api.example.com:/"], "network.listed"),
        (["http://api.example.com:/#part"], "network.listed"),
        (["https://:443/"], "network.host_missing"),
        (["http:///x"], "network.host_missing"),
        (["https://[::1]/"], "network.address_literal"),
        (["https://api.example.com:0/"], "network.target_invalid"),
    ],
)
def test_explain_decides_as_the_relay_would(reach: Path, arguments: list[str], rule: str) -> None:
    (url, *more) = arguments
    allowed, said = explain_access(document("reach"), url, more[-1] if more else "GET")

    assert f": {rule} (" in said
    assert allowed is (rule == "network.listed")


def test_explain_under_a_profile_without_an_allowlist_says_so() -> None:
    allowed, said = explain_access(document("default"), "https://api.example.com/", "GET")

    assert not allowed
    assert "network.blocked (the profile blocks the network)" in said


def test_explain_says_when_a_daemon_refuses_the_profile_altogether(reach: Path) -> None:
    allowed, said = explain_access(document("reach", egress=False), "https://api.example.com/", "GET")

    assert not allowed
    assert "egress.enabled" in said


def test_explain_asks_the_daemon_for_its_own_profile(assay, service, reach, capsys) -> None:
    service.profiles = {"theirs": {**document("reach"), "name": "theirs"}}

    assert assay("policy", "explain", "theirs", "https://api.example.com/") == 0
    assert "theirs allows" in capsys.readouterr().out
    assert assay("policy", "explain", "theirs", "https://evil.test/") == 1
    assert assay("policy", "explain", "theirs", "ftp://api.example.com/") == 2
    assert assay("policy", "explain", "nothing", "https://api.example.com/") == 2


def test_check_asks_the_daemon_unless_told_otherwise(assay, service, tmp_path: Path, capsys) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "extractor"\n[resources]\ntimeout_s = 600\n')

    assert assay("policy", "check", str(mine)) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{mine}: valid",
        "mine: resources.timeout_s = 600 is clamped to 60 by the bounds",
    ]
    mine.write_text("[resources]\ntimeout_s = 'soon'\n")
    assert assay("policy", "check", str(mine)) == 1
    assert capsys.readouterr().err.startswith(f"{mine}:2: [resources] timeout_s: ")
    assert assay("policy", "check", str(tmp_path / "none.toml")) == 2


def test_check_without_a_file_tells_of_the_daemons_profiles(assay, service, reach, capsys) -> None:
    clamp = {"field": "resources.timeout_s", "requested": 90.0, "effective": 60.0}
    service.profiles = {
        "extractor": document("extractor"),
        "theirs": {**document("reach", egress=False), "name": "theirs", "clamped": [clamp]},
    }

    assert assay("policy", "check") == 0
    shown = capsys.readouterr().out
    assert "theirs: resources.timeout_s = 90 is clamped to 60 by the bounds\n" in shown
    assert "theirs: every submission is refused: " in shown


def test_check_without_a_daemon_says_so_and_local_needs_none(tmp_path: Path, capsys) -> None:
    assert main(["--socket", str(tmp_path / "none"), "policy", "check"]) == 4
    assert main(["--socket", str(tmp_path / "none"), "policy", "check", "--local"]) == 0
