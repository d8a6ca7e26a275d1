"""Containers with a test's program instead of the runner, created from the daemon's configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from docker import APIClient
from docker.utils.socket import frames_iter

from assayd.engines.docker import document
from assayd.engines.docker.engine import parse_engine_host
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import ContainerSpec
from support.engines.engine_image import BASE, PYTHON

MIB = 2**20
_LABEL = "org.assayd.test-bare"
_OURS = str(os.getpid())
"""Tests run in several processes, and each removes its own."""

Document = dict[str, Any]


def spec() -> ContainerSpec:
    """Return a container of the usual size."""
    return ContainerSpec(
        image=BASE,
        image_digest=BASE,
        memory_bytes=96 * MIB,
        pids=16,
        cpus=1.0,
        work_bytes=4 * MIB,
        work_files=64,
        open_files=128,
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(),
        labels={_LABEL: _OURS},
    )


def production(client: APIClient, program: str, *arguments: str) -> Document:
    """Return the daemon's configuration with another program."""
    wanted: Document = deepcopy(document.build_creation_document(spec(), parse_engine_host(client.info())))
    return {**wanted, "Entrypoint": [PYTHON, "-I", "-S", "-c", program, *arguments]}


def output_of(client: APIClient, wanted: Document) -> str:
    """Run a container until it ends; return its output. `bare_client` removes the container."""
    made = client.create_container_from_config(wanted)["Id"]
    attached = client.attach_socket(made, params={"stdout": 1, "stderr": 1, "stream": 1})
    try:
        client.start(made)
        return b"".join(content for _, content in frames_iter(attached, tty=False)).decode()
    finally:
        attached._response.close()
        attached.close()


@contextmanager
def bare_client(docker_host: str) -> Iterator[APIClient]:
    """Return a connection to the engine; containers that were created with it are removed at the end."""
    client = APIClient(base_url=docker_host, version="auto", timeout=30)
    try:
        yield client
    finally:
        for left in client.containers(all=True, filters={"label": f"{_LABEL}={_OURS}"}):
            client.remove_container(left["Id"], force=True)
        client.close()
