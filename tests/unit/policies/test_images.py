"""The image that a profile names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd.errors import RequestError
from assayd.model.policy import ExecutionPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, describe_policy, load_policies, tighten_policy
from assayd.policies.resolve import merge_policies
from assayd.tomlfile import FileError

Load = Callable[..., PolicySet]


def test_image_is_inherited_shown_and_part_of_the_digest(load: Load) -> None:
    policies = load(a='image = "science"\n', b='extends = "a"\n', c="")

    assert describe_policy(policies.get("b"))["image"] == "science"
    assert policies.get("b").digest == policies.get("a").digest != policies.get("c").digest
    assert policies.get_profiles_by_image() == {"science": ["a", "b"]}


def test_own_image_replaces_an_inherited_one(load: Load) -> None:
    policies = load(a='image = "science"\n', b='extends = "a"\nimage = "reports"\n')

    assert policies.get("b").image == "reports"


def test_two_inherited_images_are_refused_unless_the_profile_says_which(load: Load) -> None:
    parents = {"a": 'image = "science"\n', "b": 'image = "reports"\n', "plain": ""}
    with pytest.raises(FileError) as raised:
        load(**parents, c='extends = ["a", "b"]\n')
    [problem] = raised.value.problems
    assert (problem.line, problem.message) == (
        1, "the extended profiles name different images, reports and science: set image",
    )  # fmt: skip

    chosen = load(**parents, c='extends = ["a", "b"]\nimage = "reports"\n', d='extends = ["a", "plain"]\n')
    assert (chosen.get("c").image, chosen.get("d").image) == ("reports", "science")


def test_merge_keeps_an_image_in_either_order() -> None:
    plain, named = ExecutionPolicy(name="a"), ExecutionPolicy(name="b", image="science")

    assert merge_policies(plain, named).image == merge_policies(named, plain).image == "science"


@pytest.mark.parametrize("name", ["", "Science", "../x", "a/b", "docker.io/a"])
def test_name_that_no_image_has_is_refused_with_its_line(load: Load, name: str) -> None:
    with pytest.raises(FileError, match="isn't an image name"):
        load(a=f'description = "x"\nimage = "{name}"\n')


def test_request_cannot_name_an_image() -> None:
    with pytest.raises(RequestError) as raised:
        tighten_policy(load_policies([get_shared_data_path("policies")]).get("code"), {"image": "science"})

    assert raised.value.field == "overrides.image"


def test_shipped_profile_shell_is_that_of_scripts_in_the_image_shell() -> None:
    policies = load_policies([get_shared_data_path("policies")])
    shell, script = policies.get("shell"), policies.get("script")

    assert (shell.image, script.image) == ("shell", None)
    assert shell.imports == script.imports
    assert (shell.resources.max_processes, shell.clamped) == (16, ())


def test_exec_is_off_unless_it_is_stated_and_is_inherited_and_part_of_the_digest(load: Load) -> None:
    policies = load(a="exec = true\n", b='extends = "a"\n', c='extends = "a"\nexec = false\n', d="")

    assert [policies.get(name).exec for name in "abcd"] == [True, True, False, False]
    assert policies.get("b").digest == policies.get("a").digest != policies.get("d").digest
    assert describe_policy(policies.get("b"))["exec"] is True
    assert merge_policies(policies.get("d"), policies.get("a")).exec
