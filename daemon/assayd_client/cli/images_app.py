"""Defines the commands of `assay images`, which build images and list the engine's images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

images_app = typer.Typer(help="Build and list container images.", no_args_is_help=True)


@images_app.command("build")
def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Images to build. Default: all except those built on demand."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache", "--out", metavar="DIR", help="Cache downloaded and built parts in this folder."
        ),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Add the files in this folder to the image, if its recipe allows it."
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
            help="Read an OCI layout, a `docker save` archive, or an image from a local engine.",
        ),
    ],
    tag: Annotated[
        str | None, typer.Option(metavar="TAG", help="Use this tag if the source contains several.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Cache downloaded and built parts in this folder.")
    ] = None,
) -> None:
    """Prepare any image for runs: flatten it, add the runner, and load it."""
    from assayd_client.cli.images import adopt_image

    adopt_image(name, where, tag, cache)


@images_app.command("lock")
def lock(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of your recipe.")],
) -> None:
    """Resolve a recipe's python_packages, and write a lock file of wheels and hashes next to the recipe."""
    from assayd_client.cli.images import lock_recipe

    lock_recipe(name)


@images_app.command("list")
def list_engine_images() -> None:
    """List all images with their state, size, age and users."""
    from assayd_client.cli.images import list_images
    from assayd_client.cli.terminal import get_stdout, print_table

    print_table(get_stdout(), ("image", "digest", "size", "shared", "age", "used by"), list_images())


@images_app.command("sbom")
def show_sbom(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a built image.")],
) -> None:
    """Print the software bill of materials of an image, as CycloneDX JSON."""
    from assayd_client.cli.images import build_sbom

    typer.echo(build_sbom(name), nl=False)


@images_app.command("gc")
def collect_garbage(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the images that would be removed, without removing any.")
    ] = False,
) -> None:
    """Remove unused images that no kind or profile references."""
    from assayd_client.cli.images import remove_unused_images
    from assayd_client.cli.terminal import get_stdout, print_table

    print_table(get_stdout(), ("image", "freed", ""), remove_unused_images(dry_run=dry_run))
