"""A client that a public generator makes from the API reference works with the daemon."""

import importlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from assayd.api import SocketAccess, create_app
from assayd.kinds.registry import load_own_validators
from assayd_chains.routes import ROUTERS as CHAIN_ROUTERS
from support.cluster.either import EITHER, serving_either
from support.daemons.fake_service import FakeService
from support.daemons.server import serving
from support.daemons.small_daemon import submission

PACKAGE = "generated_assayd_client"
GENERATOR = Path(sys.prefix) / "generator"
"""Where `make setup` installs it, with the packages that it needs."""


def generate(reference: dict[str, object], folder: Path) -> str:
    """Generate a client below a folder; return the generator's warnings."""
    (folder / "openapi.json").write_text(json.dumps(reference))
    program = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    files = ["--path", folder / "openapi.json", "--output-path", folder / PACKAGE, "--overwrite"]
    environment = {**os.environ, "PYTHONPATH": str(GENERATOR)}
    done = subprocess.run(
        [*program, *files], capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    return done.stdout + done.stderr


def reference() -> dict[str, object]:
    service = FakeService()
    service.kinds = load_own_validators()
    return create_app(service, None, access=SocketAccess(), routers=CHAIN_ROUTERS).openapi()


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("generated")
    (folder / "complaints").write_text(generate(reference(), folder))
    sys.path += [str(folder), str(GENERATOR)]  # what the generated code imports; our own packages come first
    try:
        yield folder
    finally:
        for added in (folder, GENERATOR):
            sys.path.remove(str(added))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
        shutil.rmtree(folder)


def part(name: str) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.{name}")


def connect(path: Path):
    client = part("client").Client(base_url="http://assayd", raise_on_unexpected_status=True)
    transport = httpx.HTTPTransport(uds=str(path))
    return client.set_httpx_client(httpx.Client(base_url="http://assayd", transport=transport))


def test_every_operation_is_generated(generated: Path) -> None:
    operations = {
        operation["operationId"]: operation["tags"][0]
        for methods in reference()["paths"].values()
        for operation in methods.values()
    }
    made = {file.stem: file.parent.name for file in generated.glob(f"{PACKAGE}/api/*/[a-z]*.py")}
    assert made == operations
    assert "will not be generated" not in (generated / "complaints").read_text()


def test_operations_have_the_names_of_the_contract() -> None:
    names = {
        operation["operationId"] for path in reference()["paths"].values() for operation in path.values()
    }
    wanted = {"submit_attempt", "put_attempt", "get_attempt", "list_attempts", "cancel_attempt", "get_batch"}
    assert wanted <= names
    assert all(name.islower() and name.isidentifier() for name in names)


def test_submission_is_typed_by_its_kind_and_the_answer_is_an_attempt(
    generated: Path, tmp_path: Path
) -> None:
    models = part("models")
    payload = models.ExtractorPayload(code="x = 1", sample_paths=["/data/a.csv"])
    body = models.ExtractorSubmission(kind="extractor", payload=payload)
    with serving(FakeService(), tmp_path / "s") as path, connect(path) as client:
        attempt = part("api.attempts.submit_attempt").sync(client=client, body=body, wait_s=5)
        again = part("api.attempts.get_attempt").sync(attempt.id, client=client)
        refused = part("api.attempts.get_attempt").sync("nothing", client=client)
    assert isinstance(attempt, models.Attempt)
    assert (attempt.verdict, attempt.report.runtime_results.cases[0].status) == ("validated", "passed")
    assert again.id == attempt.id
    assert (type(refused), refused.error.code) == (models.Error, "not_found")


@pytest.fixture(params=EITHER)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with serving_either(request, tmp_path) as served:
        yield served.path


def test_lines_of_a_batch_are_sent_and_counted(generated: Path, path: Path) -> None:
    lines = "\n".join(json.dumps(submission(code)) for code in ("one", "two")).encode()
    file = part("types").File(payload=io.BytesIO(lines))
    with connect(path) as client:
        batch = part("api.batches.submit_batch").sync(client=client, body=file, name="lines")
        told = part("api.batches.get_batch").sync("lines", client=client)
    assert (batch.received.added, told.counts.total) == (2, 2)
