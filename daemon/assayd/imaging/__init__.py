"""Builds images from the distribution's packages, without a registry and without running their content.

    image.toml ─recipe─> Recipe ─packages─> tar of files ─rootfs─> root folder ─archive─> `docker load` file

Builds from equal recipes, package lists and guest code produce equal image ids. `Engine.load_image` loads
the archive.
"""

from assayd.imaging.archive import read_image_id
from assayd.imaging.building import build_image
from assayd.imaging.recipe import Recipe, RecipeFolders
from assayd.imaging.tree import compute_guest_digest

__all__ = ["Recipe", "RecipeFolders", "build_image", "compute_guest_digest", "read_image_id"]
