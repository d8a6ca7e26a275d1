"""Images in foreign formats for tests: an OCI layout, or an archive of `docker save`."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from assayd.imaging import packages
from assayd.imaging.command import run_command

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
ARCHITECTURE = MACHINES[platform.machine()]


def member(name: str, kind: bytes = tarfile.REGTYPE, *, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    """Return a member of a layer."""
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, link, mode
    return found


def layer(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Return the tar file of a layer."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def files(contents: Mapping[str, bytes]) -> bytes:
    """Return a layer of ordinary files."""
    return layer((member(name), content) for name, content in contents.items())


def write_docker_archive(
    target: Path, layers: Sequence[bytes], *, tag: str = "strange:latest", environment: Sequence[str] = ()
) -> Path:
    """Write an archive like `docker save`."""
    config = _config(layers, environment)
    names = [f"{number}/layer.tar" for number, _ in enumerate(layers)]
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": names}]
    contents = {"manifest.json": json.dumps(manifest).encode(), "config.json": config}
    target.write_bytes(files({**contents, **dict(zip(names, layers, strict=True))}))
    return target


def write_oci_layout(
    folder: Path, layers: Sequence[bytes], *, tag: str = "strange", environment: Sequence[str] = ()
) -> Path:
    """Write an OCI layout with compressed layers and an index of platforms."""
    (folder / "blobs/sha256").mkdir(parents=True)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    manifest = {
        "config": _blob(folder, _config(layers, environment)),
        "layers": [_blob(folder, gzip.compress(content, mtime=0)) for content in layers],
    }
    found = _blob(folder, json.dumps(manifest).encode())
    platforms = [
        {**found, "platform": {"architecture": ARCHITECTURE, "os": "linux"}},
        {**found, "platform": {"architecture": "unknown", "os": "unknown"}},
    ]
    index = _blob(folder, json.dumps({"manifests": platforms}).encode())
    named = {**index, "annotations": {"org.opencontainers.image.ref.name": tag}}
    (folder / "index.json").write_text(json.dumps({"manifests": [named]}))
    return folder


def _config(layers: Sequence[bytes], environment: Sequence[str]) -> bytes:
    tars = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in layers]
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {"Env": list(environment), "Entrypoint": ["/bin/sh"], "User": "root"},
        "rootfs": {"type": "layers", "diff_ids": tars},
    }
    return json.dumps(config).encode()


def _blob(folder: Path, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    (folder / "blobs/sha256" / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def debian_root(suite: str, programs: Sequence[str], target: Path) -> bytes:
    """Return the files of a Debian release's packages as one layer, from this machine's package source."""
    sources = [source.line.split() for source in packages.list_apt_sources()]
    place = next(words[2] for words in sources if "-" not in words[3] and words[4] == "main")
    merged = 'for name in bin sbin lib lib64; do mkdir -p "$1/usr/$name"; ln -s "usr/$name" "$1/$name"; done'
    options = [
        "--variant=extract",
        "--format=tar",
        "--skip=output/dev,chroot/mount",
        f"--setup-hook={merged}",
    ]
    line = f"deb [trusted=yes] {place} {suite} main"
    command = ["mmdebstrap", *options, f"--include={','.join(programs)}", suite, str(target), line]
    run_command(command, code="image.packages_failed", timeout_s=600)
    return target.read_bytes()
