"""The commands of `assay images`: build the images, and list what the engine has of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

images_app = typer.Typer(help="Build and list the images of containers.", no_args_is_help=True)


@images_app.command("build")
def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Images to build. Default: all except those built on demand."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", "--out", metavar="DIR", help="Keep parts and archives in this folder."),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Add the files of this folder to the image, if its recipe allows it."
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Build only images that are missing, damaged or outdated.")
    ] = False,
) -> None:
    """Build images and load them into the engine."""
    from assayd_client.cli.images import build_images

    build_images(names or (), cache, library, repair=repair)


@images_app.command("adopt")
def adopt(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name for the adopted image.")],
    where: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="IMAGE",
            help="Read an OCI layout, a `docker save` archive, or an image of a local engine.",
        ),
    ],
    tag: Annotated[
        str | None, typer.Option(metavar="TAG", help="Choose this tag if there are several.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep parts and archives in this folder.")
    ] = None,
) -> None:
    """Make any image fit for runs: flatten it, put the runner beside its files, and load it."""
    from assayd_client.cli.images import adopt_image

    adopt_image(name, where, tag, cache)


@images_app.command("lock")
def lock(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of your recipe.")],
) -> None:
    """Choose the wheels of a recipe's python_packages, and write them with their hashes beside it."""
    from assayd_client.cli.images import lock_image

    lock_image(name)


@images_app.command("list")
def list_engine_images() -> None:
    """List all images: whether the engine has them, how large and how old they are, and who uses them."""
    from assayd_client.cli.images import list_images
    from assayd_client.cli.listing import print_table
    from assayd_client.cli.terminal import out

    print_table(out(), ("image", "digest", "size", "shared", "age", "used by"), list_images())


@images_app.command("gc")
def collect_garbage(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
) -> None:
    """Remove images that no kind and no profile names, unless they are in use."""
    from assayd_client.cli.images import remove_unused
    from assayd_client.cli.listing import print_table
    from assayd_client.cli.terminal import out

    print_table(out(), ("image", "freed", ""), remove_unused(dry_run=dry_run))
