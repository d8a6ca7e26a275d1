"""`assay policy check` and `explain` on allowlists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assayd.cli import main

REACH = """
[network]
mode = "allowlist"
hosts = ["api.example.com", ".example.org"]
ports = [443, 80]

[network.http."status.example.net"]
methods = ["GET"]
paths = ["/v1/"]
"""


@pytest.fixture
def reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "reach.toml"
    path.write_text(REACH)
    monkeypatch.setenv("ASSAYD_POLICY_FOLDERS", json.dumps([str(tmp_path)]))
    return path


def test_check_says_what_a_list_allows(reach: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", str(reach)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "reach: every name below example.org, port 80, 443: TLS, and plain HTTP with any method and path",
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
        (["https://user@api.example.com/"], "network.target_invalid"),
    ],
)
def test_explain_decides_as_the_relay_would(
    reach: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], rule: str
) -> None:
    code = main(["policy", "explain", "reach", *arguments])

    said = capsys.readouterr().out
    assert f": {rule} (" in said
    assert code == (0 if rule == "network.listed" else 1)


def test_explain_under_a_profile_without_an_allowlist_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "default", "https://api.example.com/"]) == 1
    assert "network.blocked (the profile blocks the network)" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nothing", "https://a.test/"], ["default", "ftp://a.test/"]])
def test_explain_refuses_what_is_no_profile_or_url(arguments: list[str]) -> None:
    assert main(["policy", "explain", *arguments]) == 2
