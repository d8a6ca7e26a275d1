"""A Podman service of our own, and an engine for it that asks for less than the daemon would accept.

The daemon refuses Podman. The conformance suite runs against it all the same, so that what Podman can and
cannot do is known by trying, and a version that can do more shows.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from assayd.engines.docker import DockerEngine, document
from assayd.engines.docker.engine import _create, _CreatedContainer
from assayd.errors import EngineError
from assayd.ports.engine import LABEL_CONTAINER, ContainerRef, ContainerSpec

DIFFERENCES = {
    "test_created_container_is_what_was_asked_for": "it is not, see tests/system/test_podman.py",
    "test_kill_of_what_has_ended_or_is_gone_is_fine": "status 500, as for any other trouble",
    "test_engine_says_who_it_is": "it is refused for what it says, see there too",
}
"""Tests of the conformance suite that Podman does not pass, and why."""
PROCESSES = 4096
REMOVED_AFTER = 50
AGAIN_S = 0.1


@contextmanager
def serving() -> Iterator[str]:
    """Serve Podman's Docker API on its own socket with its own state; yield the address."""
    home = Path(tempfile.mkdtemp(prefix="assayd-podman-", dir="/tmp"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home / "s"))
    listener.listen()  # whoever comes before the service does waits in the queue
    command = ["podman", f"--root={home}/root", f"--runroot={home}/run", "--cgroup-manager=cgroupfs"]
    command += ["--events-backend=file", "system", "service", "--time=0"]
    handed = 'exec 3<&"$0"; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
    with (home / "log").open("wb") as log:
        service = subprocess.Popen(
            ["bash", "-c", handed, str(listener.fileno()), *command],
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield f"unix://{home}/s"
    finally:
        service.terminate()
        service.wait(60)
        listener.close()
        subprocess.run(
            [*command[:3], "rm", "--all", "--force"], check=False, timeout=120, capture_output=True
        )
        subprocess.run(["umount", f"{home}/root/overlay"], check=False, capture_output=True)
        shutil.rmtree(home)


def copy_image(name: str, address: str) -> None:
    """Copy an image from the tests' engine."""
    with subprocess.Popen(["docker", "save", name], stdout=subprocess.PIPE) as saved:
        load = ["docker", "--host", address, "load"]
        subprocess.run(load, stdin=saved.stdout, check=True, timeout=600, capture_output=True)


class PodmanEngine(DockerEngine):
    """An engine that sends only what Podman supports: the filter's path, the work directory's size."""

    def __init__(self, address: str) -> None:
        super().__init__(base_url=address)
        self._home = Path(address.removeprefix("unix://")).parent

    async def create(self, spec: ContainerSpec) -> ContainerRef:
        ulid = spec.labels[LABEL_CONTAINER]
        wanted = cast("dict[str, Any]", document.build_creation_document(spec, await self._get_host()))
        self._adapt(wanted["HostConfig"], spec)
        create = partial(_create, wanted=wanted, name=f"assayd-{ulid}")
        made = await self._calls(create, discard=_CreatedContainer.remove)
        return ContainerRef(engine_id=made.engine_id, ulid=ulid)

    async def remove(self, ref: ContainerRef) -> None:
        """Remove a container, with retries, because Podman answers 500 while the container is ending."""
        for _ in range(REMOVED_AFTER):
            with suppress(EngineError):
                await super().remove(ref)
                return
            await asyncio.sleep(AGAIN_S)
        await super().remove(ref)

    def _adapt(self, settings: dict[str, Any], spec: ContainerSpec) -> None:
        profile = self._home / f"{spec.labels[LABEL_CONTAINER]}.json"
        profile.write_text(spec.seccomp)
        settings["SecurityOpt"] = ["no-new-privileges:true", f"seccomp={profile}"]
        settings["Tmpfs"] = {document.WORK_DIRECTORY: f"size={spec.work_bytes},mode=1777,nosuid,nodev,noexec"}
        # Its own default is beyond what this machine lets it set, and it starts by lowering its own limit.
        settings["Ulimits"].append({"Name": "nproc", "Soft": PROCESSES, "Hard": PROCESSES})
