"""Every kind's failing samples can be turned into prompts and take a fix, without a container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assayd.documents import canonical
from assayd.kind import Kind
from assayd.kinds import registry as validators
from assayd.model.submission import Sample
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.worker import parse_shell

KINDS = list(validators.load_validators(()).values())
REPORT: dict[str, object] = {
    "stage_reached": "x",
    "retry_context": "It failed.",
    "findings": [],
    "fix_hints": [],
}


@pytest.fixture(autouse=True)
def _reader() -> None:
    reader.install_reader(parse_shell)


def failing() -> Iterator[tuple[Kind, Sample]]:
    for kind in KINDS:
        yield from ((kind, sample) for sample in kind.samples if sample.verdict == "failed")


@pytest.mark.parametrize(
    ("kind", "sample"), [pytest.param(k, s, id=f"{k.name}-{s.name}") for k, s in failing()]
)
def test_a_failed_submission_tells_its_passage_and_takes_another_text_for_it(
    kind: Kind, sample: Sample
) -> None:
    payload = kind.payload.model_validate_json(canonical(sample.payload))
    context = kind.context(payload, REPORT)
    assert context.failure == "It failed."
    if not context.passage.name:
        assert kind.name == "script"
        assert not payload.files
        return

    same = kind.patch(payload, context.passage.name, context.passage.text)
    other = kind.patch(payload, context.passage.name, "select 1")
    forms = [
        kind.normalize_text(kind.payload.model_validate_json(canonical(document)))
        for document in (same, other)
    ]
    assert forms[0] == kind.normalize_text(payload)
    assert forms[1] != forms[0]
