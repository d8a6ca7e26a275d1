"""Which policies and kinds go together."""

from __future__ import annotations

import pytest

from assayd.attempts.admission import require_image
from assayd.errors import RequestError
from assayd.kinds import registry
from assayd.model.policy import ExecutionPolicy


@pytest.mark.parametrize(("kind", "image"), [("pipeline", "science"), ("fifth", "shell")])
def test_policy_with_another_image_is_refused_for_a_kind_that_needs_its_own(kind: str, image: str) -> None:
    with pytest.raises(RequestError) as raised:
        require_image(registry.find(kind), ExecutionPolicy(name="mine", image=image))

    assert (raised.value.code, raised.value.field) == ("policy.image", "policy")
    assert f"policy 'mine' runs in image {image}, but kind {kind} needs " in raised.value.message


@pytest.mark.parametrize(
    ("kind", "image"),
    [("code", "science"), ("script", "shell"), ("extractor", "x"), ("fifth", None), ("pipeline", "shell")],
)
def test_kind_that_runs_anywhere_and_the_kinds_own_image_are_taken(kind: str, image: str | None) -> None:
    policy = ExecutionPolicy(name="mine", image=image)

    require_image(registry.find(kind), policy)
    assert policy.image == image
