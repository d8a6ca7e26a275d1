"""Writes SBOMs of an image or of this Python environment as CycloneDX documents.

Equal packages produce equal bytes: a document contains no timestamp, and its serial number is a digest.
"""

from __future__ import annotations

import importlib.metadata
import json
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from assayd import __version__
from assayd.imaging.inventory import Inventory, Package, build_python_package

if TYPE_CHECKING:
    from cyclonedx.model.component import Component

SBOM_FILE = ".assayd/sbom.cdx.json"
"""The path of the SBOM in an image."""
MAX_BYTES = 8 * 2**20
"""Maximum bytes of a document, which is enough for the maximum number of packages."""

_NAMESPACE = uuid.UUID("8a5b0c7e-3f6d-5e52-9d55-6f1c0d1f8a61")
_UNREADABLE = "org.assayd:unreadable-packages"


def build_image_sbom(name: str, found: Inventory) -> bytes:
    """Return the SBOM of an image."""
    return _build_document("container", f"assayd/{name}", None, found)


def build_environment_sbom() -> bytes:
    """Return the SBOM of the Python environment of this process."""
    named = ((one.metadata["Name"], one.version) for one in importlib.metadata.distributions())
    found = [build_python_package(name, version) for name, version in named if name != "assayd"]
    packages = sorted({package for package in found if package is not None})
    return _build_document("application", "assayd", __version__, Inventory(packages=tuple(packages)))


def _build_document(kind: str, name: str, version: str | None, found: Inventory) -> bytes:
    # Imported only here: it takes half a second, and memory that the daemon doesn't need.
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    described = Component(name=name, version=version, type=ComponentType(kind), bom_ref="described")
    components = list(_build_components(found.packages))
    metadata = BomMetaData(component=described)
    if found.unreadable:
        metadata.properties.add(Property(name=_UNREADABLE, value=str(found.unreadable)))
    bom = Bom(components=components, metadata=metadata)
    bom.register_dependency(described, components)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["serialNumber"], document["metadata"]["timestamp"]
    digest = uuid.uuid5(_NAMESPACE, json.dumps(document, sort_keys=True))
    return json.dumps(document | {"serialNumber": digest.urn}, sort_keys=True, indent=1).encode() + b"\n"


def _build_components(packages: Iterable[Package]) -> Iterable[Component]:
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    for package in packages:
        namespace = (package.system.partition("-")[0] or "debian") if package.kind == "deb" else None
        upstream = package.source if package.source != package.name else ""
        qualifiers = {"arch": package.architecture, "distro": package.system, "upstream": upstream}
        url = PackageURL(package.kind, namespace, package.name, package.version, qualifiers)
        yield Component(
            name=package.name,
            version=package.version,
            type=ComponentType.LIBRARY,
            purl=url,
            bom_ref=url.to_string(),
        )
