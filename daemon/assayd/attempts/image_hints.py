"""Says of a module that an image does not have which other image has it, and which policy runs in that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from assayd.errors import EngineError
from assayd.kind import Kind
from assayd.model.finding import Finding
from assayd.model.report import Judgement
from assayd.model.text_limits import shorten
from assayd.sandbox.images import Images, modules_of

_MISSING = "sandbox.module_missing"


class ImageHints:
    """The images that profiles name, as hints know them."""

    def __init__(self, images: Images, named: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        self._images = images
        self._named = named

    async def add(self, validator: Kind, judgement: Judgement) -> Judgement:
        """Return the judgement with what helps against modules that are missing."""
        found = [one for findings in judgement.stage_findings.values() for one in findings]
        if not validator.any_image or all(finding.rule != _MISSING for finding in found):
            return judgement
        known = await self._modules()
        stages = {
            stage: tuple(_hinted(finding, known) for finding in findings)
            for stage, findings in judgement.stage_findings.items()
        }
        return replace(judgement, stage_findings=stages)

    async def _modules(self) -> Mapping[str, str]:
        """Return a sentence for each module that an image has which is built; the first image's counts."""
        known: dict[str, str] = {}
        for name, profiles in sorted(self._named().items()):
            try:
                modules = modules_of(await self._images.get(name))
            except EngineError:  # not built, or the engine is away: no hint
                continue
            for module, version in modules.items():
                known.setdefault(
                    module, f"{module} {version} is in image {name}: use policy {' or '.join(profiles)}."
                )
        return known


def _hinted(finding: Finding, known: Mapping[str, str]) -> Finding:
    parts = finding.message.split("'")
    hint = known.get(parts[1]) if finding.rule == _MISSING and len(parts) > 1 else None
    if hint is None:
        return finding
    return replace(finding, suggestion=shorten(f"{hint} {finding.suggestion or ''}".rstrip()))
