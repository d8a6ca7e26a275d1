"""Finds the images for runs, and rejects images whose guest code differs from the daemon's copy."""

from __future__ import annotations

from pathlib import Path

from assayd.errors import EngineError
from assayd.imaging.baselines import LABEL_BASELINE
from assayd.imaging.digest import guest_digest
from assayd.ports.engine import Engine, ImageFacts

PREFIX = "assayd/"
LABEL_GUEST = "org.assayd.guest"
LABEL_PYTHON = "org.assayd.python"
LABEL_OFFER = "org.assayd.offer"
LABEL_CONSTANTS = "org.assayd.constants"
LABEL_MODULES = "org.assayd.modules"
LABEL_PRELOAD = "org.assayd.preload"
LABEL_INTERPRETER = "org.assayd.interpreter"
LABEL_RUNNER = "org.assayd.runner"
_INTERPRETER = "/usr/bin/python3.11 -I -S"
DEFAULT_BASELINE_BYTES = 32 * 2**20
"""Default memory for the runner and the image's own libraries, in addition to the policy's."""


class Images:
    """A cache of image look-ups. `forget` must be called when images could have changed."""

    def __init__(self, engine: Engine, guest: Path) -> None:
        self._engine = engine
        self._expected = guest_digest(guest)
        self._known: dict[str, ImageFacts] = {}

    async def get(self, name: str) -> ImageFacts:
        """Return the image of this short name, e.g. ``python``.

        Raises: EngineError ``image.missing``, ``image.mismatch`` or ``image.damaged``, with the required
        action.
        """
        if name not in self._known:
            self._known[name] = await self.look(name)
        return self._known[name]

    async def look(self, name: str) -> ImageFacts:
        """Look up the image in the engine, bypassing the cache. Raises: the same errors as `get`."""
        facts = await self._engine.image(PREFIX + name)
        if facts.labels.get(LABEL_GUEST) != self._expected:
            raise EngineError(
                "image.mismatch",
                f"image {PREFIX}{name} has a guest version that differs from the daemon's; "
                f"run: assay images build {name}",
            )
        return facts

    def forget(self) -> None:
        """Clear the cache of look-ups."""
        self._known.clear()


def baseline_bytes(facts: ImageFacts) -> int:
    """Return the memory, in bytes, that a container of this image needs before any guest code runs."""
    text = facts.labels.get(LABEL_BASELINE, "")
    return int(text) if text.isdigit() else DEFAULT_BASELINE_BYTES


def preloaded_modules(facts: ImageFacts) -> tuple[str, ...]:
    """Return the modules that containers of this image preload."""
    return tuple(facts.labels.get(LABEL_PRELOAD, "").split())


def modules_of(facts: ImageFacts) -> dict[str, str]:
    """Return the modules of an image in addition to Python's standard library, with their versions."""
    return dict(named.split("=", 1) for named in facts.labels.get(LABEL_MODULES, "").split() if "=" in named)


def runner_interpreter(facts: ImageFacts) -> tuple[str, ...]:
    """Return the command that starts the Python of an image's runner."""
    return tuple(facts.labels.get(LABEL_INTERPRETER, _INTERPRETER).split())


def runs_python(facts: ImageFacts) -> bool:
    """Return whether the image's own Python runs the runner. If not, the image only runs programs."""
    return facts.labels.get(LABEL_RUNNER) != "own"


def constant_variables(facts: ImageFacts) -> tuple[str, ...]:
    """Return the names of variables that an image sets for all code, including submitted code."""
    return tuple(facts.labels.get(LABEL_CONSTANTS, "").split())
