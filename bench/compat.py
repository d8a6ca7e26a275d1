"""Runs SandboxFusion's own tests of its runners against `assay compat`.

usage: python -m bench.compat CHECKOUT [--url URL] [TEST…]

Start the service with `assay compat --policy python=loopback`, which has requests and TCP on loopback.

CHECKOUT is a clone of bytedance/SandboxFusion; nothing of it is in this repository. Its tests post to an ASGI
application; here that application forwards each request to a running `assay compat` (default:
http://127.0.0.1:8080). TEST names modules of `sandbox/tests/runners` without `test_` (default: those of the
languages that images of this project have). Prints how many tests passed, were refused and failed;
exit code 1 if one failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

TESTS = ("python", "bash", "nodejs", "cpp", "go", "rust", "java", "pytest", "jupyter", "isolation")
REFUSED = {
    "test_python_fetch_files": "writes to /mnt: only the work directory can be written to",
    "test_isolation_network_external_access": "asks a server on the internet: containers have no network",
    "test_nodejs_lodash_dep": "imports lodash: the image has no npm packages",
    "test_jupyter_plot": "imports matplotlib: the image has the standard library",
    "test_java_external_jar": "imports javatuples: the image has the standard library",
}
"""Tests that can't pass on purpose, and why."""
RUNNERS = "from .types import *\nCODE_RUNNERS = {}\nrun_jupyter = None\n"
SERVER = """
import httpx


async def app(scope, receive, send):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    async with httpx.AsyncClient(base_url=URL, timeout=120) as client:
        answer = await client.request(
            scope["method"], scope["path"], content=body, headers={"content-type": "application/json"}
        )
    headers = [(b"content-type", answer.headers["content-type"].encode())]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})
"""


def main() -> int:
    """Run the tests; return pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("tests", nargs="*", default=TESTS)
    asked = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        lay_out(asked.checkout, Path(folder), asked.url)
        files = [f"sandbox/tests/runners/test_{name}.py" for name in asked.tests]
        options = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "--junit-xml=results.xml"]
        subprocess.run([sys.executable, "-m", "pytest", *options, *files], cwd=folder, check=False)
        return report(ElementTree.parse(Path(folder, "results.xml")).iter("testcase"))


def report(tests: Iterable[ElementTree.Element]) -> int:
    """Print the table; return 1 if a test failed that isn't refused on purpose."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for test in tests:
        name = test.get("name", "")
        failed = test.find("failure") is not None or test.find("error") is not None
        module = test.get("classname", "").rpartition("test_")[2]
        rows[module]["refused" if failed and name in REFUSED else "failed" if failed else "passed"] += 1
        if failed:
            print(f"{name}: {REFUSED.get(name, 'FAILED')}")
    total = sum(rows.values(), Counter())
    for module, counts in (*rows.items(), ("all", total)):
        print(
            f"{module:<10} " + "  ".join(f"{counts[end]:>3} {end}" for end in ("passed", "refused", "failed"))
        )
    return 1 if total["failed"] or not total["passed"] else 0


def lay_out(checkout: Path, folder: Path, url: str) -> None:
    """Put the tests and the models that they import into a folder, with a server that forwards."""
    for part in ("sandbox/tests/runners", "sandbox/runners", "sandbox/server"):
        (folder / part).mkdir(parents=True)
    for test in (checkout / "sandbox/tests/runners").glob("test_*.py"):
        shutil.copy(test, folder / "sandbox/tests/runners")
    shutil.copy(checkout / "sandbox/runners/types.py", folder / "sandbox/runners")
    shutil.copy(checkout / "sandbox/server/sandbox_api.py", folder / "sandbox/server")
    (folder / "sandbox/runners/__init__.py").write_text(RUNNERS)
    (folder / "sandbox/server/server.py").write_text(f"URL = {url!r}\n{SERVER}")
    (folder / "conftest.py").write_text("import sys\nsys.path.insert(0, '.')\n")
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")


if __name__ == "__main__":
    sys.exit(main())
