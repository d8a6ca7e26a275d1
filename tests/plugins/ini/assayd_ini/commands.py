"""`assay ini`: help for listing a file's fields."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Help with INI files.", no_args_is_help=True)


@app.callback()
def start() -> None:
    """Help for INI files."""


@app.command()
def fields(file: Annotated[Path, typer.Argument(metavar="FILE", help="A good INI file.")]) -> None:
    """Print the fields of a file in the form that `--option fields` accepts."""
    parser = ConfigParser(interpolation=None)
    parser.read_string(file.read_text())
    print(",".join(f"{section}.{key}:str" for section in parser.sections() for key in parser[section]))
