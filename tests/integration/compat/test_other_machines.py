"""`assay compat` for other machines: over TLS, in front of a gateway, for clients with its tokens."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from support.daemons.compat_program import compat_program
from support.hosts.secure_gateway import TRUST, SecureGateway, serving
from support.hosts.tls_gateway import CA_FILE

PROGRAM = {"language_id": 71, "source_code": "print(1)"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with serving(tmp_path_factory.mktemp("gateway")) as served:
        yield served


@pytest.fixture(scope="module")
def url(gateway: SecureGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    token_file = tmp_path_factory.mktemp("token") / "token"
    token_file.touch(0o600)
    token_file.write_text(gateway.operator)
    server = [
        *("--server", f"https://localhost:{gateway.port}"),
        *("--token-file", str(token_file), "--ca-file", str(CA_FILE)),
    ]
    secure = ["--certificate", str(gateway.certificate), "--key", str(gateway.key)]
    with compat_program(server, secure) as (where, _):
        yield where.replace("127.0.0.1", "localhost")


def client(url: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=url, verify=TRUST, headers={"X-Auth-Token": token}, timeout=30)


def test_caller_with_a_token_of_the_gateway_is_served(url: str, gateway: SecureGateway) -> None:
    with client(url, gateway.token) as caller:
        assert caller.get("/healthz").text == "ok"
        created = caller.post("/submissions", json=PROGRAM)
        assert created.status_code == 201
        assert caller.get(f"/submissions/{created.json()['token']}").status_code == 200


def test_submission_is_its_callers_alone(url: str, gateway: SecureGateway) -> None:
    with client(url, gateway.token) as caller, client(url, gateway.operator) as other:
        token = caller.post("/submissions", json=PROGRAM).json()["token"]
        assert caller.get(f"/submissions/{token}").status_code == 200
        assert other.get(f"/submissions/{token}").status_code == 404


@pytest.mark.parametrize("token", ["x" * 43, ""])
def test_caller_without_a_token_of_the_gateway_is_refused(url: str, token: str) -> None:
    with client(url, token) as caller:
        assert caller.post("/submissions", json=PROGRAM).status_code == 401


def test_connection_without_tls_is_closed(url: str) -> None:
    with pytest.raises(httpx.TransportError), httpx.Client(timeout=30) as caller:
        caller.get(url.replace("https", "http") + "/healthz")
