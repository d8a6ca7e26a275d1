"""References to optional packages, and the messages about packages that aren't installed."""

from __future__ import annotations

import pytest

from assayd_client.cli import parts
from assayd_client.cli.app import COMMANDS


def test_missing_library_is_installed_by_its_own_name() -> None:
    error = parts.build_missing_library_error("mcp", "mcp")
    assert error.message == "assay mcp needs the package `mcp`: pip install mcp"


@pytest.mark.parametrize(
    ("package", "otherwise", "said"),
    [
        ("assayd_mcp", "", "install the wheel assayd-mcp"),
        ("assayd_compat", "", "install the package assayd"),
        ("assayd_screens", "pass --yes", "install the wheel assayd-screens, or pass --yes"),
    ],
)
def test_missing_package_is_named_with_what_installs_it(package: str, otherwise: str, said: str) -> None:
    error = parts.build_missing_part_error("generate", package, otherwise)
    assert error.message == f"assay generate needs a package that isn't installed: {said}"
    assert error.code == "usage"


@pytest.mark.parametrize("package", parts.PARTS)
def test_package_of_the_checkout_is_not_missing(package: str) -> None:
    assert parts.find_missing_part(f"{package}.commands:run") is None


def test_reference_to_the_client_itself_is_never_missing() -> None:
    assert parts.find_missing_part("assayd_client.nowhere:run") is None


def test_every_package_outside_the_client_in_the_table_is_an_optional_one() -> None:
    packages = {place.partition(".")[0] for place in COMMANDS.values() if "." in place}
    assert packages <= set(parts.PARTS)
