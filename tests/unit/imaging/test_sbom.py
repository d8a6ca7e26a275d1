from __future__ import annotations

import json

from assayd import __version__
from assayd.imaging.inventory import Inventory, Package
from assayd.imaging.sbom import build_environment_sbom, build_image_sbom
from support.texts.bill import schema_problem

LIBC = Package(
    kind="deb",
    name="libc6",
    version="2.36-9+deb12u1",
    architecture="amd64",
    source="glibc",
    system="debian-12",
)
NUMPY = Package(kind="pypi", name="numpy", version="2.1.0")


def test_document_of_an_image_fits_the_schema_and_names_its_packages() -> None:
    document = build_image_sbom("tables", Inventory(packages=(LIBC, NUMPY), unreadable=3))

    assert schema_problem(document) is None
    read = json.loads(document)
    assert read["metadata"]["component"]["name"] == "assayd/tables"
    assert [each["purl"] for each in read["components"]] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64&distro=debian-12&upstream=glibc",
        "pkg:pypi/numpy@2.1.0",
    ]
    assert read["metadata"]["properties"] == [{"name": "org.assayd:unreadable-packages", "value": "3"}]


def test_same_packages_give_the_same_bytes_and_others_another_serial_number() -> None:
    both, one = Inventory(packages=(LIBC, NUMPY)), Inventory(packages=(LIBC,))

    assert build_image_sbom("a", both) == build_image_sbom("a", both)
    assert (
        json.loads(build_image_sbom("a", both))["serialNumber"]
        != json.loads(build_image_sbom("a", one))["serialNumber"]
    )
    assert "timestamp" not in json.loads(build_image_sbom("a", both))["metadata"]


def test_image_without_packages_has_a_document() -> None:
    document = build_image_sbom("empty", Inventory(packages=()))

    assert schema_problem(document) is None


def test_document_of_the_environment_names_the_daemons_libraries() -> None:
    document = build_environment_sbom()

    assert schema_problem(document) is None
    read = json.loads(document)
    assert (read["metadata"]["component"]["name"], read["metadata"]["component"]["version"]) == (
        "assayd",
        __version__,
    )
    names = {each["name"] for each in read["components"]}
    assert {"sqlalchemy", "pydantic", "cyclonedx-python-lib"} <= names
    assert "assayd" not in names
