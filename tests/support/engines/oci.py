"""The OCI engine for tests, on the project's unpacked images and on images derived from them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from assayd.engines.docker import DockerEngine
from assayd.engines.oci import OciEngine
from assayd.engines.oci.images import ImageStore
from assayd.ports.engine import Engine
from support.slowness import SLOWER_BY

ROOT = Path(__file__).resolve().parents[3]
IMAGES = Path(os.environ.get("ASSAYD_ENGINE__IMAGES_DIR", ROOT / ".run/images"))
RUN = Path(os.environ.get("ASSAYD_ENGINE__RUN_DIR", "/run/assayd-oci"))
PYTHON = ("/usr/bin/python3.11", "-I", "-S", "-c")

needs_oci = pytest.mark.engine if os.geteuid() == 0 else pytest.mark.system
"""For others than root these tests are among those of `make test-system`."""


class _KeptStore(ImageStore):
    """A store that stays open, with its verified images, while engines that share it come and go."""

    def close(self) -> None:
        """Do nothing, so that the verified images are kept."""


@cache
def kept_store(folder: Path) -> ImageStore:
    """Return a folder's shared store, because verifying an image takes longer than most tests."""
    return _KeptStore(folder)


def oci_engine(
    images: Path = IMAGES, *, templates: bool = False, store: ImageStore | None = None
) -> OciEngine:
    """Return an engine like the daemon's; `store` replaces its own."""
    engine = OciEngine(images=images, run=RUN, timeout_s=20 * SLOWER_BY, templates=templates)
    if store is not None:
        engine._images = engine._maker._images = store
    return engine


def made_engine(request: pytest.FixtureRequest, kind: str) -> Engine:
    """Return an engine of this kind, for parametrized fixtures."""
    if kind.startswith("oci"):
        return oci_engine(templates=kind == "oci-templates", store=kept_store(IMAGES))
    return DockerEngine(base_url=request.getfixturevalue("docker_host"))


def make_one_engine(request: pytest.FixtureRequest, *, templates: bool = True) -> Engine:
    """Return the engine that the fixture `one_engine` names; for a single container, templates don't pay."""
    kind = "oci" if request.getfixturevalue("one_engine") == "oci" else "docker"
    return made_engine(request, f"{kind}-templates" if templates and kind == "oci" else kind)


def traces(name: str) -> list[Path]:
    """List everything that exists for a container: its folder and its control groups."""
    # Not a glob, which fails where groups of others go away meanwhile.
    groups = [
        Path(root, f"assayd-{name}")
        for root, folders, _ in os.walk("/sys/fs/cgroup")
        if f"assayd-{name}" in folders
    ]
    return [path for path in (RUN / "containers" / name, *groups) if path.exists()]


def derive(name: str, arguments: Sequence[str], folder: Path, base: str = "assayd/python") -> str:
    """Make an image like another that starts with another program; return its digest.

    Args:
        folder: a store for it alone, on the file system of the project's own; files are shared with that.
    """
    own = ImageStore(IMAGES)
    image = own.get(own.find(base).digest)
    own.close()
    document = json.loads((image.folder / "config.json").read_bytes())
    document["config"]["Entrypoint"] = list(arguments)
    config = json.dumps(document).encode()
    digest = hashlib.sha256(config).hexdigest()
    store = ImageStore(folder)
    store.prepare()
    made = store.roots / digest
    shutil.copytree(image.root, made / "rootfs", symlinks=True, copy_function=os.link)
    made.chmod(0o755)
    (made / "config.json").write_bytes(config)
    store._write_name(name, f"sha256:{digest}")
    return f"sha256:{digest}"
