"""Programs that found a wall closed find it open where there is none: they are not blind.

They run without the filters of system calls, the container's and the child's, and without the runner. Their
user and the container's other flags stay, so that nothing leaves the container all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import APIClient

from support.engines.bare_container import bare_client, output_of, production

pytestmark = pytest.mark.engine

PROGRAMS = Path(__file__).parent / "programs"
SEEING = (
    "kernel/filter_with_a_listener",
    "kernel/filters_of_sockets",
    "kernel/filters_stacked",
    "kernel/limits_of_the_runner",
    "kernel/locks_without_end",
    "kernel/namespaces_made",
    "kernel/objects_that_outlive_a_process",
    "kernel/usual_ways_in",
    "kernel/watches_of_an_image",
    "proc/environment",
    "proc/program_started_by_hand",
    "proc/runner_read",
    "proc/runner_read_by_a_dumpable_child",
    "resources/disk_kept_busy",
    "signals/every_signal_to_the_runner",
    "sockets/every_family",
    "sockets/internet_refused",
    "sockets/raw_and_odd_ones",
)
DRIVER = """
import os, signal, sys

def hit(*ignored):
    print("ESCAPED the first process was hit", flush=True)
    os._exit(0)

signal.signal(signal.SIGINT, hit)  # the interpreter's own handler would end it without a word
signal.signal(signal.SIGTERM, hit)
if (child := os.fork()) == 0:
    signal.alarm(10)
    names = {}
    exec(compile(sys.argv[1], "program", "exec"), names)
    for escaped in names["extract"]("unit-0")["escaped"]:
        print("ESCAPED", escaped, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def client(docker_host: str) -> Iterator[APIClient]:
    with bare_client(docker_host) as made:
        yield made


@pytest.mark.parametrize("name", SEEING)
def test_program_escapes_where_there_is_no_wall(client: APIClient, name: str) -> None:
    wanted = production(client, DRIVER, (PROGRAMS / f"{name}.py").read_text())
    wanted["HostConfig"]["SecurityOpt"] = ["no-new-privileges:true", "seccomp=unconfined"]
    wanted["Env"] = ["SECRET=1"]
    assert "ESCAPED" in output_of(client, wanted)
