"""Builds images from the distribution's packages, without a registry and without running their content.

    image.toml ─recipe─> Recipe ─packages─> tar of files ─rootfs─> root folder ─archive─> `docker load` file

Builds from equal recipes, package lists and guest code produce equal image ids. `Engine.load_image` loads
the archive.
"""

from assayd.imaging.archive import image_id
from assayd.imaging.building import build
from assayd.imaging.digest import guest_digest
from assayd.imaging.recipe import Recipe
from assayd.imaging.recipes import Recipes

__all__ = ["Recipe", "Recipes", "build", "guest_digest", "image_id"]
