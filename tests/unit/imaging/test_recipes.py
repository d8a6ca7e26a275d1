"""An operator's recipes: how they extend the shipped ones, and how mistakes are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging.recipe import RecipeFolders
from assayd.imaging.wheels import SITE
from assayd.package_data import get_shared_data_path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "logo.svg").write_text("<svg/>")
    return tmp_path


def load(own: Path, text: str, name: str = "reports"):
    (own / f"{name}.toml").write_text(text)
    return RecipeFolders(get_shared_data_path("images"), own).load(name)


GOOD = """
extends = "python"
packages = ["libgomp1"]
python_packages = ["numpy==2.1.3", "pandas>=2,<3"]
preload = ["numpy"]
offer = "python3.11"
[files]
"usr/share/reports/logo.svg" = "logo.svg"
[environment]
OPENBLAS_NUM_THREADS = "1"
"""


def test_recipe_adds_to_what_it_extends(own: Path) -> None:
    python, recipe = RecipeFolders(get_shared_data_path("images")).load("python"), load(own, GOOD)

    assert recipe.extends == "python"
    assert recipe.packages == (*python.packages, "libgomp1", "libstdc++6")
    assert recipe.entrypoint == python.entrypoint
    assert recipe.python_path == (SITE,)
    assert recipe.preload == ("numpy",)
    assert recipe.constants == ("OPENBLAS_NUM_THREADS",)
    assert dict(recipe.environment)["PATH"] == dict(python.environment)["PATH"]
    assert recipe.files == (("usr/share/reports/logo.svg", own / "logo.svg"),)


def test_recipe_extends_another_of_the_operators_and_comes_after_the_shipped_ones(own: Path) -> None:
    load(own, GOOD)
    recipe = load(own, 'extends = "reports"\npython_packages = ["rich"]\n', "tables")

    assert recipe.python_packages == ("numpy==2.1.3", "pandas>=2,<3", "rich")
    assert recipe.preload == ("numpy",)
    assert RecipeFolders(get_shared_data_path("images"), own).names()[-2:] == ["reports", "tables"]


def test_digest_follows_recipe_lock_and_files(own: Path) -> None:
    digests = {load(own, GOOD).digest, load(own, GOOD + "#").digest}
    (own / "reports.lock").write_text("x")
    digests.add(load(own, GOOD).digest)
    (own / "logo.svg").write_text("<svg></svg>")
    digests.add(load(own, GOOD).digest)

    assert len(digests) == 4


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ("packages = []", "extends", "must name the recipe"),
        ('extends = "python"\nentrypoint = ["/bin/sh"]', "entrypoint", "isn't a key"),
        ('extends = "reports"', "extends", "in a cycle: reports > reports"),
        ('extends = "python"\npackages = ["Lib Gomp"]', "packages", "isn't a package name"),
        (
            'extends = "python"\npython_packages = ["--index-url=x"]',
            "python_packages",
            "isn't a package with",
        ),
        (
            'extends = "python"\npython_packages = ["a @ file:///x"]',
            "python_packages",
            "isn't a package with",
        ),
        ('extends = "python"\npython_packages = ["../a"]', "python_packages", "isn't a package with"),
        ('extends = "python"\npreload = ["a b"]', "preload", "isn't a module name"),
        ('extends = "python"\n[files]\n"/etc/x" = "logo.svg"', "files", "without a leading slash"),
        ('extends = "python"\n[files]\n"etc/x" = "../x"', "files", "relative to the recipe"),
        ('extends = "python"\n[files]\n"etc/x" = "absent"', "files", "doesn't exist"),
        ('extends = "python"\n[environment]\nLD_PRELOAD = "x"', "environment", "can't be set"),
        ('extends = "python"\n[environment]\nPYTHONPATH = "x"', "environment", "can't be set"),
        ('extends = "python"\n[environment]\nPATH = "x"', "environment", "can't be set"),
        ('extends = "python"\n[environment]\n"a-b" = "x"', "environment", "must be a name of"),
    ],
)
def test_mistake_names_file_and_key(own: Path, text: str, key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(own, text)
    assert (raised.value.code, raised.value.field) == ("image.recipe_invalid", key)
    assert f"{own / 'reports.toml'}: {key}: " in raised.value.message
    assert problem in raised.value.message


@pytest.mark.parametrize("text", ["rich", "rich==13.9.4", "a.b-c[x,y]>=1.0,!=1.5.*,<2", "pandas~=2.2"])
def test_requirement_by_name_and_versions_is_taken(own: Path, text: str) -> None:
    assert load(own, f'extends = "python"\npython_packages = ["{text}"]').python_packages == (text,)


def test_name_that_is_shipped_is_refused(own: Path) -> None:
    with pytest.raises(ConfigError, match="'shell' is the name of a shipped image"):
        load(own, 'extends = "python"', "shell")


def test_unknown_image_is_refused_with_those_that_there_are(own: Path) -> None:
    load(own, GOOD)
    with pytest.raises(ConfigError, match=r"unknown image recipe 'report' .*use one of adapter, .*reports"):
        RecipeFolders(get_shared_data_path("images"), own).load("report")


def test_folder_that_does_not_exist_has_no_recipes(tmp_path: Path) -> None:
    assert (
        RecipeFolders(get_shared_data_path("images"), tmp_path / "absent").names()
        == RecipeFolders(get_shared_data_path("images")).names()
    )
