"""Images from the distribution's packages, without a registry and without running anything inside them.

    image.toml ─recipe─> Recipe ─packages─> tar of files ─rootfs─> root folder ─archive─> `docker load` file

The same recipe, package lists and guest code give the same image id at every build. Loading the archive
into an engine is left to the engine's port.
"""

from assayd.imaging.archive import image_id
from assayd.imaging.building import build
from assayd.imaging.digest import guest_digest
from assayd.imaging.recipe import Recipe
from assayd.imaging.recipes import Recipes

__all__ = ["Recipe", "Recipes", "build", "guest_digest", "image_id"]
