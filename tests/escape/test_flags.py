"""Every flag of the container does something: a probe sees it hold, and sees it gone when it is taken away.

The containers are the daemon's own, by the document that it asks the engine with, but for the program in them
and, in the second test, for one flag.

Not shown here, because this kind of host cannot show it:

- memory-swap: where there is no swap, memory = memory + swap cannot be told from memory alone.
- user, cap-drop and no-new-privileges hold one another up: a user other than root has no effective
  capabilities whatever is dropped, and the image has no set-uid program that `no-new-privileges` could stop.
  What is shown is what the kernel keeps of each: the bounding set and the flag.
- read-only root and the read-only /proc/sys: their files are root's, so that a user other than root fails to
  write there anyway. What is shown is how the kernel has them mounted.
- mode of the work directory: runc before 1.2 takes that of the image's directory instead. Nobody else is in
  the container, so that nothing hangs on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from docker.errors import APIError

from assayd.engines.docker import document
from support.engines import flag_probes
from support.engines.bare_container import MIB, Document, bare_client, output_of, production, spec

pytestmark = pytest.mark.engine

PROBES = Path(flag_probes.__file__).read_text()

Seen = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A flag: its probe, the probe's value while the flag holds, and the configuration without it."""

    probe: str
    holds: Seen
    taken: Mapping[str, object]
    fires: Seen | None = None
    process: Mapping[str, object] | None = None

    def gone(self, seen: Any) -> bool:
        """Return whether the probe detected that the flag is missing."""
        return not self.holds(seen) if self.fires is None else self.fires(seen)


def tmpfs(without: str, instead: str = "") -> Mapping[str, object]:
    """Return the work directory's mount with one option removed or replaced."""
    options = str(
        document.build_creation_document(spec(), HOST)["HostConfig"]["Tmpfs"][document.WORK_DIRECTORY]
    ).split(",")
    kept = [instead if option.startswith(without) else option for option in options]
    return {"Tmpfs": {document.WORK_DIRECTORY: ",".join(option for option in kept if option)}}


def ulimits(without: str) -> Mapping[str, object]:
    """Return the process limits without one of them."""
    every = document.build_creation_document(spec(), HOST)["HostConfig"]["Ulimits"]
    return {"Ulimits": [limit for limit in every if limit["Name"] != without]}


HOST = document.EngineHost(runtime="runc", swappiness=False)
ON_THE_HOST = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("ipc", "uts")}

FLAGS: Mapping[str, Flag] = {
    "network none": Flag(
        probe="network_devices",
        holds=lambda seen: not any(name.startswith(("eth", "en", "veth", "wl", "ifb")) for name in seen),
        taken={"NetworkMode": "host", "Sysctls": {}},  # they cannot be set for the host
        fires=lambda seen: set(seen) >= {"lo"} and len(seen) > 1,
    ),
    "name servers": Flag(
        probe="name_servers",
        holds=lambda seen: seen == ["127.0.0.1"],
        taken={"Dns": [], "DnsSearch": []},
        fires=lambda seen: "127.0.0.1" not in seen,
    ),
    "search domains": Flag(
        probe="search_domains",
        holds=lambda seen: seen == [],
        taken={"DnsSearch": ["internal.example"]},
    ),
    "read-only root": Flag(
        probe="root_is_writable", holds=lambda seen: seen is False, taken={"ReadonlyRootfs": False}
    ),
    "read-only kernel settings": Flag(
        probe="kernel_settings_are_writable", holds=lambda seen: seen is False, taken={"ReadonlyPaths": []}
    ),
    "masked files": Flag(probe="masked_file", holds=lambda seen: seen is False, taken={"MaskedPaths": []}),
    "capabilities dropped": Flag(
        probe="capabilities", holds=lambda seen: seen == 0, taken={"CapDrop": []}, fires=lambda seen: seen > 0
    ),
    "no new privileges": Flag(
        probe="new_privileges",
        holds=lambda seen: seen is False,
        # With the profile alone no container starts here: the runtime could not change the user under it.
        taken={"SecurityOpt": ["seccomp=unconfined"]},
    ),
    "seccomp": Flag(
        probe="memory_file",
        holds=lambda seen: seen == "OSError",
        taken={"SecurityOpt": ["no-new-privileges:true", "seccomp=unconfined"]},
        fires=lambda seen: seen == "made",
    ),
    "user": Flag(
        probe="user",
        holds=lambda seen: seen == [10001, 10001, [10001]],
        taken={},
        process={"User": "0:0"},
        fires=lambda seen: seen[:2] == [0, 0],
    ),
    "ipc namespace": Flag(
        probe="ipc_namespace",
        holds=lambda seen: seen != ON_THE_HOST["ipc"],
        taken={"IpcMode": "host"},
    ),
    "host name namespace": Flag(
        probe="host_name_namespace",
        holds=lambda seen: seen != ON_THE_HOST["uts"],
        taken={"UTSMode": "host"},
        process={"Hostname": ""},
    ),
    "process namespace": Flag(
        probe="first_process", holds=lambda seen: seen is True, taken={"PidMode": "host"}
    ),
    "control group namespace": Flag(
        probe="control_group",
        holds=lambda seen: seen == ["/"],
        taken={"CgroupnsMode": "host"},
        fires=lambda seen: any(len(path) > 1 for path in seen),
    ),
    "memory": Flag(
        probe="memory",
        holds=lambda seen: seen == "signal 9",
        taken={"Memory": 0, "MemorySwap": 0},
        fires=lambda seen: seen == 200,
    ),
    "processes": Flag(
        probe="processes",
        holds=lambda seen: seen == 14,
        taken={"PidsLimit": 0},
        fires=lambda seen: seen == 64,
    ),
    "processor": Flag(
        probe="processor_quota",
        holds=lambda seen: seen == "100000",
        taken={"NanoCpus": 0},
        fires=lambda seen: seen in {"-1", "max"},
    ),
    "core files": Flag(probe="core_size", holds=lambda seen: seen == 0, taken=ulimits("core")),
    "file size": Flag(probe="file_size", holds=lambda seen: seen == 4 * MIB, taken=ulimits("fsize")),
    "memory of connections": Flag(
        probe="connection_bytes", holds=lambda seen: seen < MIB // 4, taken={"Sysctls": {}}
    ),
    "message queues": Flag(probe="queue_bytes", holds=lambda seen: seen == 0, taken=ulimits("msgqueue")),
    "pending signals": Flag(
        probe="pending_signals",
        holds=lambda seen: seen is False,
        taken=ulimits("sigpending"),
    ),
    "open files": Flag(
        probe="open_files",
        holds=lambda seen: seen == 128,
        taken=ulimits("nofile"),
        fires=lambda seen: seen > 128 or seen == -1,
    ),
    "work directory's size": Flag(
        probe="work_bytes",
        holds=lambda seen: seen <= 4,
        taken=tmpfs("size="),
        fires=lambda seen: seen == 16,
    ),
    "work directory's files": Flag(
        probe="work_files",
        holds=lambda seen: 32 < seen < 64,
        taken=tmpfs("nr_inodes="),
        fires=lambda seen: seen == 1000,
    ),
    "work directory without programs": Flag(
        probe="work_programs",
        holds=lambda seen: seen == 126,
        taken=tmpfs("noexec", "exec"),
        fires=lambda seen: seen == 0,
    ),
    "work directory without set-uid": Flag(
        probe="work_set_uid", holds=lambda seen: seen is False, taken=tmpfs("nosuid", "suid")
    ),
    "work directory without devices": Flag(
        probe="work_devices", holds=lambda seen: seen is False, taken=tmpfs("nodev", "dev")
    ),
    "shared memory": Flag(
        probe="shared_memory_bytes",
        holds=lambda seen: seen == 65536,
        taken={"ShmSize": 0},
        fires=lambda seen: seen >= MIB,
    ),
}


@pytest.fixture(scope="module")
def client(docker_host: str) -> Iterator[APIClient]:
    with bare_client(docker_host) as made:
        yield made


@pytest.fixture(scope="module")
def seen(client: APIClient) -> Document:
    """Return every probe's value in a container with all flags."""
    output = output_of(client, production(client, PROBES, *(flag.probe for flag in FLAGS.values())))
    return dict(json.loads(output))


@pytest.mark.parametrize("name", FLAGS)
def test_flag_holds(seen: Document, name: str) -> None:
    flag = FLAGS[name]
    assert flag.holds(seen[flag.probe]), seen[flag.probe]


@pytest.mark.parametrize("name", FLAGS)
def test_probe_fires_when_the_flag_is_taken_away(client: APIClient, name: str) -> None:
    flag = FLAGS[name]
    wanted = {**production(client, PROBES, flag.probe), **(flag.process or {})}
    wanted["HostConfig"] |= flag.taken
    output = json.loads(output_of(client, wanted))
    assert flag.gone(output[flag.probe]), output


@pytest.mark.parametrize(("driver", "kept"), [("none", False), ("json-file", True)])
def test_engine_keeps_output_only_when_the_log_driver_is_another(
    client: APIClient, driver: str, kept: bool
) -> None:
    wanted = production(client, PROBES, "user")
    assert wanted["HostConfig"]["LogConfig"]["Type"] == "none"
    wanted["HostConfig"]["LogConfig"]["Type"] = driver
    made = client.create_container_from_config(wanted)["Id"]
    client.start(made)
    client.wait(made, timeout=30)
    if kept:
        assert client.logs(made) != b""
    else:
        with pytest.raises(APIError, match="does not support reading"):
            client.logs(made)
