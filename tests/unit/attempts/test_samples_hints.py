"""Hints about missing modules: which image has them, under which policy."""

from __future__ import annotations

from typing import cast

import pytest

from assayd.attempts.samples import ImageHints
from assayd.errors import EngineError
from assayd.kinds import registry
from assayd.model.finding import Finding
from assayd.model.report import Judgement
from assayd.ports.engine import ImageFacts
from assayd.sandbox.sandbox import ImageCache

LABELS = {"org.assayd.modules": "numpy=1.24.2 pandas=1.5.3"}


class Engine:
    """An engine with one of two images."""

    async def get(self, name: str) -> ImageFacts:
        if name == "absent":
            raise EngineError("image.missing", "no such image")
        return ImageFacts(name=name, digest="sha256:1", size_bytes=1, labels=LABELS)


HINTS = ImageHints(cast("ImageCache", Engine()), lambda: {"absent": ["x"], "science": ["data", "more"]})


def judged(module: str, rule: str = "sandbox.module_missing") -> Judgement:
    message = f"The image has no module '{module}'; it offers Python's standard library."
    finding = Finding(rule=rule, category="runtime", message=message, suggestion="Do without.")
    return Judgement(stage_findings={"sandbox": (finding,)}, cases=())


async def test_missing_module_names_the_image_and_the_policies_that_have_it() -> None:
    hinted = await HINTS.add(registry.find_validator("script"), judged("pandas"))

    [finding] = hinted.stage_findings["sandbox"]
    said = "pandas 1.5.3 is in image science: use policy data or more. Do without."
    assert finding.suggestion == said


@pytest.mark.parametrize(
    ("kind", "judgement"),
    [
        ("script", judged("polars")),
        ("script", judged("pandas", "sandbox.raised")),
        ("pipeline", judged("pandas")),
    ],
)
async def test_other_findings_and_kinds_that_cannot_go_there_are_left_alone(
    kind: str, judgement: Judgement
) -> None:
    assert await HINTS.add(registry.find_validator(kind), judgement) == judgement
