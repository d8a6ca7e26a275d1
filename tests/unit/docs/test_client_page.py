"""The examples on the client's page can be run."""

import re
from pathlib import Path

from support.daemons.fake_service import FakeService
from support.daemons.server import serving
from support.hosts.tls_gateway import CA_FILE, TOKEN, tls_gateway

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client.md"


def test_example_of_the_page_runs(tmp_path, monkeypatch, capsys) -> None:
    example, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with serving(FakeService(), tmp_path / "s") as path:
        monkeypatch.setenv("ASSAY_SOCKET", str(path))
        exec(compile(example, PAGE.name, "exec"), {})
    assert capsys.readouterr().out.startswith("validated [")


def test_example_of_another_host_runs(tmp_path, monkeypatch, capsys) -> None:
    _, _, example, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    monkeypatch.setenv("ASSAY_CA_FILE", str(CA_FILE))
    with tls_gateway() as gateway:
        here = example.replace("https://gateway.example:8443", gateway.url).replace(
            "/home/me/.assay-token", str(token)
        )
        exec(compile(here, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "[]\n"
