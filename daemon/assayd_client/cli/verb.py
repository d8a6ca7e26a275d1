"""What a verb of `assay` is, as data; `verbs` has all of them."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assayd_client import Target

ADDRESS_OPTIONS: Mapping[str, tuple[str, str]] = {
    "--socket": ("PATH", "Use this socket of the daemon. Default: ASSAY_SOCKET."),
    "--server": ("URL", "Use this gateway, https://HOST[:PORT]. Default: ASSAY_SERVER."),
    "--token-file": ("FILE", "Read the gateway's token from this file. Default: ASSAY_TOKEN_FILE."),
    "--ca-file": ("FILE", "Trust the certificates in this file. Default: ASSAY_CA_FILE."),
}
"""Options of the program itself, which say where the daemon is; they may stand anywhere on a line."""

TYPES: Mapping[str, Callable[[str], object]] = {"text": str, "path": Path, "whole": int, "number": float}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One option or argument.

    Attributes:
        name: under which the function gets it.
        help: what it is, in a line.
        option: as it is written on the line, e.g. ``--set``; empty for an argument.
        metavar: what stands for its value in the help; empty for a flag.
        type: of `TYPES`.
        many: whether it may be given more than once; the function gets a list.
        required: whether an argument has to be there.
        default: what the function gets without it.
        least: the smallest number that it may be; None for any.
        most: the largest.
    """

    name: str
    help: str
    option: str = ""
    metavar: str = ""
    type: str = "text"
    many: bool = False
    required: bool = False
    default: object = None
    least: float | None = None
    most: float | None = None

    @property
    def is_flag(self) -> bool:
        """Return whether it is an option without a value."""
        return bool(self.option) and not self.metavar


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandVerb:
    """One command. `run` is a function of this package, which takes the daemon and the parameters."""

    name: str
    help: str
    run: str
    parameters: tuple[Parameter, ...] = ()

    def call(self, daemon: Target, values: Mapping[str, Any]) -> int:
        """Run it with what a line says; return the exit code."""
        function = pkgutil.resolve_name(f"assayd_client.cli.{self.run}")
        given = {
            each.name: (values.get(each.name) or ()) if each.many else values.get(each.name, each.default)
            for each in self.parameters
        }
        code: int = function(daemon, **given)
        return code
