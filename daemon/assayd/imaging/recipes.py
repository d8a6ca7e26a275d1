"""Finds and loads the shipped recipes, and the operator's recipes, which extend shipped recipes.

This module finds the recipe file for a name. `recipe` and `own_recipe` define its content.
"""

from dataclasses import dataclass
from pathlib import Path

from assayd.errors import ConfigError
from assayd.imaging.own_recipe import (
    SUFFIX,
    duplicate_recipe_error,
    extend_recipe,
    read_adopted_recipe,
    read_recipe_table,
    recipe_path,
)
from assayd.imaging.recipe import RECIPE, Recipe, check_recipe, is_image_name, load_recipe


@dataclass(frozen=True, slots=True)
class RecipeFolders:
    """The folders of shipped recipes and of the operator's recipes; the operator's folder is optional.

    `packaged` lists the recipe folders of other installed packages.
    """

    shipped: Path
    own: Path | None = None
    packaged: tuple[Path, ...] = ()

    def names(self) -> list[str]:
        """Return the names of all recipes, beginning with the shipped recipes."""
        found = [sorted(each.glob(f"*/{RECIPE}")) for each in (self.shipped, *self.packaged)]
        shipped = [path.parent.name for paths in found for path in paths]
        own = sorted(path.stem for path in self.own.glob(f"*{SUFFIX}")) if self.own is not None else []
        return [*shipped, *own]

    def load_all(self) -> list[Recipe]:
        """Parse all recipes. Raises: ConfigError ``image.recipe_invalid``."""
        return [self.load(name) for name in self.names()]

    def load(self, name: str) -> Recipe:
        """Parse the recipe of an image.

        Raises:
            ConfigError: ``image.unknown`` (no such recipe) or ``image.recipe_invalid``.
        """
        return self._load_extended(name, ())

    def _load_extended(self, name: str, trail: tuple[str, ...]) -> Recipe:
        own = recipe_path(self.own, name) if self.own is not None and is_image_name(name) else None
        if self.own is None or own is None or not own.is_file():
            return self._load_shipped(name, own)
        shipped = self._find_recipe_folder(name) / name / RECIPE
        if shipped.is_file():
            raise duplicate_recipe_error(name, shipped, own)
        table, extends = read_recipe_table(self.own, name)
        if extends is None:
            return read_adopted_recipe(table, name)
        if extends in {name, *trail}:
            circle = " > ".join((*trail, name, extends))
            raise table.error("extends", f"recipes extend each other in a cycle: {circle}")
        parent = self._load_extended(extends, (*trail, name))
        if parent.source is not None:
            raise table.error("extends", f"image {extends!r} is adopted and used unchanged; extend another")
        recipe = extend_recipe(parent, table, name)
        check_recipe(recipe, table)
        return recipe

    def _find_recipe_folder(self, name: str) -> Path:
        """Return the folder that contains an image's recipe, or the shipped folder for an unknown image."""
        if not is_image_name(name):
            return self.shipped
        having = (each for each in (self.shipped, *self.packaged) if (each / name / RECIPE).is_file())
        return next(having, self.shipped)

    def _load_shipped(self, name: str, own: Path | None) -> Recipe:
        try:
            return load_recipe(self._find_recipe_folder(name), name, self.shipped)
        except ConfigError as error:
            if error.code != "image.unknown" or own is None:
                raise
            known = ", ".join(self.names())
            message = f"unknown image recipe {name!r} ({own} doesn't exist either); use one of {known}"
            raise ConfigError(error.code, message) from error
