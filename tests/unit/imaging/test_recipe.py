"""Recipes: how they are read, and how mistakes are reported."""

from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging.recipe import RecipeFolders, load_recipe
from assayd.package_data import get_shared_data_path

GOOD = """
packages = ["python3.11"]
executables = ["usr/bin/python3.11"]
python = "3.11"
guest = true
entrypoint = ["/usr/bin/python3.11", "-I"]
"""


def write(recipes: Path, text: str, base: str = "") -> Path:
    (recipes / "sample").mkdir()
    (recipes / "base.toml").write_text(base)
    (recipes / "sample" / "image.toml").write_text(text)
    return recipes


def test_base_comes_before_the_recipes_own(tmp_path: Path) -> None:
    base = 'drop = ["var"]\n[environment]\nLANG = "C"\nPATH = "/usr/bin"'
    recipe = load_recipe(
        write(tmp_path, GOOD + 'drop = ["etc/x"]\n[environment]\nLANG = "X"', base), "sample"
    )
    assert recipe.drop == ("var", "etc/x")
    assert recipe.environment == (("LANG", "X"), ("PATH", "/usr/bin"))


def test_digest_follows_both_files(tmp_path: Path) -> None:
    digests = set()
    for number, (text, base) in enumerate([(GOOD, ""), (GOOD + "#", ""), (GOOD, "#")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        digests.add(load_recipe(write(folder, text, base), "sample").digest)
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        (GOOD + "colour = 1", "colour", "isn't a key"),
        (GOOD + 'ca_bundle = "yes"', "ca_bundle", "must be true or false"),
        (GOOD + "description = 1", "description", "must be a string"),
        (GOOD + "baseline_mb = 0", "baseline_mb", "an integer above 0"),
        (GOOD + "baseline_mb = true", "baseline_mb", "an integer above 0"),
        (GOOD + 'links = ["a"]', "links", "must be a table of strings"),
        (GOOD + 'drop = ["/etc"]', "drop", "without a leading slash"),
        (GOOD + 'drop = ["usr/../etc"]', "drop", "'..'"),
        (GOOD.replace('"python3.11"]', '"python 3"]', 1), "packages", "isn't a package name"),
        (GOOD.replace('python = "3.11"', ""), "python", "is required"),
        (GOOD.replace('"3.11"', '"2"'), "python", "isn't a version"),
        (GOOD.replace("usr/bin/python3.11", "usr/bin/perl"), "executables", "must contain"),
        (GOOD.replace('["/usr/bin/python3.11", "-I"]', "[]"), "entrypoint", "absolute path"),
        (
            GOOD.replace('["/usr/bin/python3.11", "-I"]', '["/bin/sh"]'),
            "entrypoint",
            "one of the executables",
        ),
    ],
)
def test_mistake_names_file_and_key(tmp_path: Path, text: str, key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_recipe(write(tmp_path, text), "sample")
    assert raised.value.code == "image.recipe_invalid"
    assert raised.value.field == key
    assert f"{tmp_path / 'sample' / 'image.toml'}: {key}: " in raised.value.message
    assert problem in raised.value.message


def test_broken_toml_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"image\.toml: .*line 2"):
        load_recipe(write(tmp_path, "\npackages = [}\n"), "sample")


def test_key_of_an_image_is_refused_in_base(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"base\.toml: guest: "):
        load_recipe(write(tmp_path, GOOD, "guest = true"), "sample")


@pytest.mark.parametrize("name", ["absent", "../sample", ""])
def test_unknown_image_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_recipe(write(tmp_path, GOOD), name)
    assert raised.value.code == "image.unknown"


def test_every_recipe_of_the_project_can_be_used() -> None:
    baselines = {
        recipe.name: recipe.baseline_mb for recipe in RecipeFolders(get_shared_data_path("images")).load_all()
    }
    assert (baselines["python"], baselines["adapter"]) == (None, 64)
