"""What the page about the client shows can be run."""

import re
from pathlib import Path

from support.daemons.fake_service import FakeService
from support.daemons.server import serving

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client.md"


def test_example_of_the_page_runs(tmp_path, monkeypatch, capsys) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with serving(FakeService(), tmp_path / "s") as path:
        monkeypatch.setenv("ASSAY_SOCKET", str(path))
        exec(compile(example, PAGE.name, "exec"), {})
    assert capsys.readouterr().out.startswith("validated [")
