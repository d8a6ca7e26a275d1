"""Containers of the OCI engine with a test's program, and optionally without one of the protections."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from assayd.clock import UlidGenerator
from assayd.engines.oci import OciEngine
from assayd.engines.oci.container import find_process_differences
from assayd.ports.engine import LABEL_CONTAINER, LABEL_DAEMON
from support.engines.bare_container import spec
from support.engines.oci import PYTHON

Document = dict[str, Any]
Change = Callable[[Document], None]

WAIT = "\nimport sys; sys.stdout.flush(); sys.stdin.read()\n"


async def run_bare(
    engine: OciEngine, program: str, *arguments: str, change: Change, limits: dict[str, str]
) -> tuple[str, list[str]]:
    """Run a program in the daemon's own configuration after `change`; return what it wrote, and what differs.

    Args:
        change: edits the configuration that the runtime gets.
        limits: file of a control group, below its controller's folder -> what is written over the limit.
    """
    image = await engine.image("assayd/python")
    ulid = UlidGenerator().new()
    wanted = replace(
        spec(), image_digest=image.digest, labels={LABEL_DAEMON: "test-flags", LABEL_CONTAINER: ulid}
    )
    ref = await engine.create(wanted)
    try:
        container = engine._containers[ulid]
        bundle = container.folder / "config.json"
        document = json.loads(bundle.read_text())
        document["process"]["args"] = [*PYTHON, program + WAIT, *arguments]
        document["root"]["path"] = str(
            container.image.root
        )  # as it is, without the launcher's own protection
        change(document)
        bundle.write_text(json.dumps(document))
        stream = await engine.start(ref)
        for path, value in limits.items():
            controller, _, name = path.partition("/")
            Path(container.group.folders[controller], name).write_text(value)
        stream._inspect = None  # what differs is asked for below
        said = await stream.read()
        if not said:
            return stream.diagnostics.decode(), []
        return said.decode(), find_process_differences(container.process, container)
    finally:
        await engine.remove(ref)
