"""Images for tests, derived from the project's own in the local engine, without a registry or a network."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

# Read when testcontainers is imported: its helper container would have to come from a registry.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"

from testcontainers.core.container import DockerContainer

PYTHON = "/usr/bin/python3.11"
BASE = "assayd/python:latest"


def commit(name: str, program: str, *changes: str) -> None:
    """Make an image like the Python one that runs `program` instead of the guest runner.

    Args:
        changes: more instructions of an image file, e.g. ``LABEL colour=red``.
    """
    entrypoint = json.dumps([PYTHON, "-I", "-S", "-c", program])
    with idle_container() as container:
        container.get_wrapped_container().commit(
            repository=name, changes="\n".join((f"ENTRYPOINT {entrypoint}", *changes))
        )


def drop(name: str) -> None:
    """Remove an image for tests."""
    client = DockerContainer(BASE).get_docker_client().client
    client.images.remove(name, force=True)
    client.close()


@contextmanager
def idle_container() -> Iterator[DockerContainer]:
    """Return a container of the Python image that does nothing."""
    entrypoint = [PYTHON, "-I", "-S", "-c", "pass"]
    with DockerContainer(BASE).with_kwargs(entrypoint=entrypoint, network_mode="none") as container:
        yield container


def run(program: str, **settings: object) -> str:
    """Run a program in a container of the Python image until it ends; return its standard output."""
    tmpfs = {"/sandbox": "size=8m,uid=10001,gid=10001,mode=0700"}
    entrypoint = [PYTHON, "-I", "-S", "-c", program]
    container = DockerContainer(BASE).with_kwargs(
        entrypoint=entrypoint, network_mode="none", read_only=True, shm_size=65536, **settings
    )
    container.tmpfs.update(tmpfs)
    with container:
        container.wait()
        output, complaints = container.get_logs()
    assert output, complaints.decode()
    return output.decode()
