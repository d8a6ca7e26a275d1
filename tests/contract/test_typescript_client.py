"""The TypeScript client is generated from the reference, compiles in strict mode, and runs under Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from assayd.api import SocketAccess, create_app
from assayd.kinds.registry import load_own_validators
from assayd_chains.routes import ROUTERS as CHAIN_ROUTERS
from support.daemons.fake_service import FakeService
from support.daemons.server import serving

pytestmark = pytest.mark.system

CLIENT = Path(__file__).resolve().parents[2] / "client/typescript"
PROGRAM = """
import { connect } from "./index.js";

const assayd = connect();
const payload = { code: "x = 1", sample_paths: ["/data/a.csv"] };
const submitted = await assayd.POST("/v1/attempts", {
  params: { query: { wait_s: 5 } },
  body: { kind: "extractor", payload },
});
const id: string = submitted.data?.id ?? "none";
const again = await assayd.GET("/v1/attempts/{id}", { params: { path: { id } } });
const refused = await assayd.GET("/v1/attempts/{id}", { params: { path: { id: "nothing" } } });
const code = refused.error?.error.code;
const scored = await assayd.POST("/v1/attempts", {
  body: {
    kind: "solution",
    payload: { code: "def f(): ...", entry_point: "f", tests: ["assert f() is None"] },
  },
});
const score: number | null | undefined = scored.data?.report?.score;
const verdict = submitted.data?.verdict;
console.log(JSON.stringify({ verdict, same: again.data?.id === id, code, score: score ?? "none" }));
process.exit(0);
"""
WRONG = """
import { connect } from "./index.js";

await connect().POST("/v1/attempts", { body: { kind: "extractor", payload: { kode: "x" } } });
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package with the types of the current reference."""
    folder = tmp_path_factory.mktemp("typescript") / "client"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "schema.ts"))
    (folder / "node_modules").symlink_to(CLIENT / "node_modules")
    service = FakeService()
    service.kinds = load_own_validators()
    document = create_app(service, None, access=SocketAccess(), routers=CHAIN_ROUTERS).openapi()
    (folder / "openapi.json").write_text(json.dumps(document))
    made = npm(folder, "run", "generate")
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


def npm(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["npm", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_program_is_typed_and_submits_under_node(package: Path, tmp_path: Path) -> None:
    (package / "src/program.ts").write_text(PROGRAM)
    (package / "src/wrong.ts").unlink(missing_ok=True)
    built = npm(package, "run", "build")
    assert built.returncode == 0, built.stdout

    with serving(FakeService(), tmp_path / "s") as socket:
        environ = {**os.environ, "ASSAY_SOCKET": str(socket)}
        command = ["node", "dist/program.js"]
        done = subprocess.run(
            command, cwd=package, env=environ, capture_output=True, text=True, check=False, timeout=60
        )

    assert done.stdout, done.stderr
    assert json.loads(done.stdout) == {
        "verdict": "validated",
        "same": True,
        "code": "not_found",
        "score": "none",
    }


def test_payload_that_the_kind_does_not_take_is_no_type(package: Path) -> None:
    (package / "src/wrong.ts").write_text(WRONG)

    built = npm(package, "run", "build")

    assert built.returncode != 0
    assert "kode" in built.stdout
