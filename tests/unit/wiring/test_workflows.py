"""The daemon without the wing of workflows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import assayd


def test_daemon_without_the_wing_names_it_and_has_no_routes(tmp_path: Path) -> None:
    (tmp_path / "assayd").symlink_to(Path(assayd.__file__).parent)
    program = f"""
import asyncio, sys
from contextlib import AsyncExitStack
sys.path[:] = [{str(tmp_path)!r}, *(p for p in sys.path if p[-7:] != "/daemon")]
from assayd.wiring.workflows import open_workflows

async def main():
    async with AsyncExitStack() as stack:
        wing = await open_workflows(None, stack, None)
    await wing.carried.recover()
    print(len(wing.routers), wing.carried.end("01A"))

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "0 False"
    assert "wing.missing" in done.stdout + done.stderr
