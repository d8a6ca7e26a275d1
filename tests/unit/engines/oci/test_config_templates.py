"""Templates: as isolated from the host as containers, and started with constants only."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from assayd.engines.oci import template
from assayd.engines.oci.config import (
    CAPABILITIES,
    MAX_CHILDREN,
    ContainerHostConfig,
    build_clone_request,
    build_configuration,
    build_template_configuration,
    build_template_plan,
    build_template_spec,
    read_program,
)
from assayd.errors import EngineError
from assayd.ports.engine import ContainerSpec

RUNNER = ("/usr/bin/python3.11", "-I", "-S", "/usr/lib/assayd/guest.pyc")


@pytest.fixture
def own(spec: ContainerSpec) -> ContainerSpec:
    return build_template_spec(spec, {"a": "b"})


@pytest.fixture
def templates_place(place: ContainerHostConfig) -> ContainerHostConfig:
    return replace(place, arguments=RUNNER, children=MAX_CHILDREN)


def test_template_differs_from_a_container_in_user_capabilities_mounts_and_calls_alone(
    own: ContainerSpec, templates_place: ContainerHostConfig
) -> None:
    made = cast("dict[str, Any]", build_template_configuration(own, templates_place))
    usual = cast("dict[str, Any]", build_configuration(own, templates_place))
    assert {name for name in made["linux"] if made["linux"][name] != usual["linux"][name]} == {"seccomp"}
    assert {name for name in made["process"] if made["process"][name] != usual["process"][name]} == {
        "user",
        "args",
        "capabilities",
        "rlimits",
    }
    assert {name for name in made if made[name] != usual[name]} == {"process", "mounts", "linux"}
    assert made["process"]["noNewPrivileges"] is True


def test_template_holds_five_capabilities_and_inherits_none(
    own: ContainerSpec, templates_place: ContainerHostConfig
) -> None:
    made = cast("dict[str, Any]", build_template_configuration(own, templates_place))
    held = made["process"]["capabilities"]
    assert held["effective"] == held["bounding"] == held["permitted"] == list(CAPABILITIES)
    assert held["inheritable"] == held["ambient"] == []
    assert made["linux"]["uidMappings"] == [{"containerID": 0, "hostID": 1879048192, "size": 128}]


def test_template_is_shown_no_control_groups_and_may_write_mount_points_alone(
    own: ContainerSpec, templates_place: ContainerHostConfig
) -> None:
    made = cast("dict[str, Any]", build_template_configuration(own, templates_place))
    assert [mount["destination"] for mount in made["mounts"]] == ["/proc", "/dev", "/sys", "/sandbox"]
    assert "size=65536" in made["mounts"][-1]["options"]


def test_source_is_the_standard_librarys_and_fits_a_message() -> None:
    text = Path(template.__file__).read_text()
    imported = {
        name.name.partition(".")[0] if isinstance(node, ast.Import) else str(node.module).partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported <= sys.stdlib_module_names
    assert len(text.encode()) < template.MESSAGE_BYTES


@pytest.mark.parametrize(
    ("arguments", "file", "code"),
    [
        (RUNNER, "/usr/lib/assayd/guest.pyc", ""),
        (("/usr/bin/python3.11", "-I", "-S", "-c", "print(1)"), "", "print(1)"),
        (("/usr/bin/python3.11", "/a.pyc", "-c"), "/a.pyc", ""),
        (("/.assayd/ld-linux.so", "--library-path", "/l", "/python3.11", "-S", "/a.pyc"), "/a.pyc", ""),
    ],
)
def test_program_of_an_image_is_read(arguments: tuple[str, ...], file: str, code: str) -> None:
    program = read_program(arguments)
    assert (program.file, program.code) == (file, code)


@pytest.mark.parametrize(
    "arguments",
    [(), ("/bin/sh", "-c", "true"), ("/usr/bin/python3.11", "/run"), ("/bin/sh", "/python3.11", "/a.pyc")],
)
def test_image_that_starts_another_program_has_no_template(arguments: tuple[str, ...]) -> None:
    with pytest.raises(EngineError) as caught:
        read_program(arguments)
    assert caught.value.code == "engine.template"


def test_child_is_told_its_limits_and_nothing_of_the_host(
    spec: ContainerSpec, place: ContainerHostConfig
) -> None:
    told = build_clone_request(spec, replace(place, clone_uid=7))
    assert told == {
        "uid": 7,
        "groups": ["memory", "pids", "cpu"],
        "limits": {
            "core": 0,
            "fsize": 4194304,
            "msgqueue": 0,
            "nofile": 128,
            "nproc": 24,
            "sigpending": 256,
        },
        "exec": False,
        "loopback": False,
        "work": "size=4194304,nr_inodes=64",
    }
    assert build_clone_request(replace(spec, loopback=True), place)["loopback"] is True


def test_plan_holds_the_constants_of_every_container(
    own: ContainerSpec, templates_place: ContainerHostConfig
) -> None:
    told = build_template_plan(own, templates_place, b"12345678")
    assert told["filter"] == "MTIzNDU2Nzg="
    assert {"/proc/keys", "/sys/firmware"} <= set(cast("list[str]", told["masked"]))
    assert told["readonly"] == ["/proc/sys"]
    assert (told["file"], told["guest"]) == ("/usr/lib/assayd/guest.pyc", 10001)
