"""Builds images manually: ``python -m assayd.imaging NAME… [--out DIR]``.

Without names, all images are built, except those that are only built on demand.
"""

import argparse
import sys
from pathlib import Path

import assayd
from assayd.errors import AssaydError
from assayd.imaging import RecipeFolders, build_image
from assayd.package_data import get_shared_data_path


def main() -> int:
    """Build the images named on the command line and print the archives' paths.

    Return the exit code: 0, or 3 if a build fails.
    """
    parser = argparse.ArgumentParser(prog="python -m assayd.imaging", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="images to build (default: all)")
    parser.add_argument("--out", type=Path, default=Path(".run/cache/images"), help="cache and result folder")
    parser.add_argument("--recipes", type=Path, help="folder with the recipes (default: the project's)")
    chosen = parser.parse_args()
    guest = Path(assayd.__file__).parent / "guest"
    try:
        recipes = RecipeFolders(chosen.recipes or get_shared_data_path("images"))
        for name in chosen.names or [recipe.name for recipe in recipes.load_all() if not recipe.on_demand]:
            print(
                build_image(name, recipes=recipes, guest=guest, cache=chosen.out, progress=_print_progress),
                flush=True,
            )
    except AssaydError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return 3
    return 0


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
