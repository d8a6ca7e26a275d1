"""The cluster page's token commands, run against a gateway."""

import os
import subprocess
import sys
from pathlib import Path

from support.hosts.secure_gateway import serving
from support.hosts.tls_gateway import CA_FILE
from support.texts import guide

PAGE = guide.OPERATING / "cluster.md"


def test_commands_of_the_page_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    operator = home / "operator.token"
    operator.touch(0o600)
    with serving(tmp_path) as gateway:
        operator.write_text(gateway.operator)
        environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "ASSAY_SERVER": f"https://localhost:{gateway.port}",
            "ASSAY_TOKEN_FILE": str(operator),
            "ASSAY_CA_FILE": str(CA_FILE),
        }
        (block,) = guide.commands(PAGE, "gateway")
        done = subprocess.run(
            ["bash", "-euc", block],
            cwd=home,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "node-1" in done.stdout
    assert "Revoked:" in done.stdout
    assert {path.name for path in home.iterdir()} == {
        "operator.token",
        "alice.token",
        "dashboards.token",
        "node-1.token",
    }
