"""Writes the manual pages of all programs and the shell completions, from what `--help` shows.

    python deploy/manual_pages.py man FOLDER           assay.1, assayd.8, assayd-gateway.8, assayd-node.8
    python deploy/manual_pages.py completions FOLDER   assay (bash), _assay (zsh), assay.fish

Run it with the Python that assayd is installed in. The same source gives the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer.main
from typer.completion import get_completion_script

from assayd import __version__
from assayd.__main__ import _build_parser
from assayd.settings import iter_documented_settings
from assayd_client.cli import options
from assayd_client.cli.app import app
from assayd_cluster.gateway.__main__ import _build_parser as _gateway_parser
from assayd_cluster.node.__main__ import _build_parser as _node_parser
from assayd_cluster.settings import NODE_PREFIX, GatewaySettings, NodeSettings

Roff = Iterator[str]
Setting = tuple[str, str, str, str]
"""Name, variable, default and description."""

EXITS = (
    (options.VALIDATED, "Done; the attempt, or every item of the batch, is validated."),
    (options.FAILED, "The submitted code, or some items of the batch, failed. A check found a fault."),
    (options.REFUSED, "Wrong usage, or the daemon refused the request."),
    (options.EXIT_ERROR, "An internal error: the code wasn't judged."),
    (options.UNREACHABLE, "The daemon doesn't answer."),
    (options.CANCELLED, "The attempt was cancelled."),
    (options.UNSIGNED, "`assay verify` found no attestation."),
    (options.INTERRUPTED, "Interrupted by the keyboard, with nothing to cancel."),
    (options.EXIT_BROKEN_PIPE, "The reader of the output is gone, as after `| head`."),
)
CLIENT_ENVIRONMENT = (
    ("ASSAY_SOCKET", "The daemon's socket, unless --socket names one."),
    ("ASSAY_SERVER", "A gateway's address, https://HOST[:PORT], unless --server names one."),
    ("ASSAY_TOKEN_FILE", "The file of the token for it, unless --token-file names one; mode 0600."),
    ("ASSAY_CA_FILE", "Trusted certificates instead of the system's, unless --ca-file names some."),
    ("XDG_RUNTIME_DIR", "Directory of the socket of an ordinary user's daemon: assayd/assayd.sock."),
    ("DOCKER_HOST", "The container engine for `assay images`, unless the settings name one."),
)
DAEMON_ENVIRONMENT = (
    ("ASSAYD_CONFIG", "The settings file, instead of /etc/assayd/assayd.toml."),
    ("ASSAYD_*", "Settings; they override the file. See SETTINGS."),
    ("DOCKER_HOST", "The container engine, unless engine.url is set."),
    ("LISTEN_FDS, LISTEN_PID", "The API's socket, passed by a socket unit (sd_listen_fds(3))."),
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "Where and how often to report that the daemon runs (sd_notify(3))."),
    ("STATE_DIRECTORY", "The state directory, unless state_dir is set (systemd.exec(5))."),
    ("JOURNAL_STREAM", "If it names standard error, lines start with their priority (systemd.exec(5))."),
)
SIGNALS = (
    (
        "SIGTERM, SIGINT",
        "Refuse new work, give running attempts 30 seconds, then stop. A second signal: stop at once.",
    ),
    ("SIGHUP", "Reload the policies; if one has an error, the previous ones stay."),
)
ENDS = (("0", "Stopped normally."), ("2", "Settings or usage are wrong."), ("3", "Another error."))
CLUSTER_GUIDE = "To set up a cluster, see /usr/share/doc/assayd/operating/cluster.md."
FILES = (
    ("/etc/assayd/assayd.toml", "Settings. `assayd --sample-config` prints a file that documents each."),
    ("/run/assayd/assayd.sock", "The API's socket."),
    ("/var/lib/assayd", "Directory of the database and artifacts."),
)


def client_page() -> str:
    """Return the page of `assay`."""
    root: Any = typer.main.get_command(app)
    lines = [
        *_title("ASSAY", 1, "assay", "validate untrusted code in throwaway containers"),
        *_synopsis("assay", "[OPTION]... COMMAND [ARGUMENT]..."),
        ".SH DESCRIPTION",
        _text(
            "assay is the client of assayd(8). It submits code, shows reports, and looks after the daemon."
        ),
        ".SH OPTIONS",
        *_parameters(root),
        ".SH COMMANDS",
        *_commands("assay", root),
        *_table("EXIT STATUS", [(str(code), text) for code, text in EXITS]),
        *_table("ENVIRONMENT", CLIENT_ENVIRONMENT),
        *_see_also("assayd(8)"),
    ]
    return "\n".join(lines) + "\n"


def daemon_page() -> str:
    """Return the page of `assayd`."""
    parser = _build_parser()
    lines = [
        *_title("ASSAYD", 8, "assayd", "validate untrusted code, for clients on a Unix socket"),
        *_synopsis("assayd", "[--print-config | --check-config | --sample-config]"),
        ".SH DESCRIPTION",
        _text(parser.description or ""),
        ".PP",
        _text(parser.epilog or ""),
        *_table("OPTIONS", list(_argparse_options(parser))),
        *_settings(iter_documented_settings()),
        *_table("SIGNALS", SIGNALS),
        *_table("EXIT STATUS", ENDS),
        *_table("ENVIRONMENT", DAEMON_ENVIRONMENT),
        *_table("FILES", FILES),
        *_see_also("assay(1)"),
    ]
    return "\n".join(lines) + "\n"


def gateway_page() -> str:
    """Return the page of `assayd-gateway`: what it has beyond a daemon."""
    purpose = "accept attempts for a cluster of assayd nodes"
    own = [
        setting for setting in iter_documented_settings(GatewaySettings) if setting[0].startswith("cluster.")
    ]
    more = "It has every setting of assayd(8) as well."
    return _cluster_page(_gateway_parser(), purpose, "[--print-config | --migrate FILE]", own, more)


def node_page() -> str:
    """Return the page of `assayd-node`."""
    purpose = "fetch attempts of a cluster for the assayd of this host"
    own = list(iter_documented_settings(NodeSettings, NODE_PREFIX))
    more = "It hands each attempt to the assayd(8) of its host, and the verdict to a gateway."
    return _cluster_page(_node_parser(), purpose, "[--print-config]", own, more)


def _cluster_page(
    parser: argparse.ArgumentParser, purpose: str, usage: str, settings: Sequence[Setting], more: str
) -> str:
    lines = [
        *_title(parser.prog.upper(), 8, parser.prog, purpose),
        *_synopsis(parser.prog, usage),
        ".SH DESCRIPTION",
        _text(f"{parser.description} {more} {CLUSTER_GUIDE}"),
        ".PP",
        _text(parser.epilog or ""),
        *_table("OPTIONS", list(_argparse_options(parser))),
        *_settings(settings),
        *_table("EXIT STATUS", ENDS),
        *_see_also("assay(1), assayd(8)"),
    ]
    return "\n".join(lines) + "\n"


def _settings(settings: Iterable[Setting]) -> Roff:
    described = [
        (f"{name} ({variable})", f"{description} Default: {default}.")
        for name, variable, default, description in settings
    ]
    return _table("SETTINGS", described)


def _title(name: str, section: int, program: str, purpose: str) -> Roff:
    yield f'.TH {name} {section} "" "assayd {__version__}"'
    yield ".SH NAME"
    yield f"{program} \\- {purpose}"


def _synopsis(program: str, rest: str) -> Roff:
    yield ".SH SYNOPSIS"
    yield f".B {program}"
    yield _text(rest)


def _see_also(page: str) -> Roff:
    yield ".SH SEE ALSO"
    yield _text(f"{page}; the operators' guide in /usr/share/doc/assayd/operating")


def _table(head: str, rows: Sequence[tuple[str, str]]) -> Roff:
    yield f".SH {head}"
    for name, text in rows:
        yield from _item(name, text)


def _item(name: str, text: str) -> Roff:
    yield ".TP"
    yield f'.B "{_escaped(name)}"'
    yield _text(text)


def _commands(path: str, group: Any) -> Roff:
    """Describe each command below a group, groups within it included."""
    for name in sorted(group.list_commands(None)):
        command, whole = group.get_command(None, name), f"{path} {name}"
        if hasattr(command, "commands"):
            yield from _commands(whole, command)
            continue
        usage = " ".join([whole, *command.collect_usage_pieces(_context(command))])
        yield f'.SS "{_escaped(usage)}"'
        yield _text(command.help or "")
        yield from _parameters(command)


def _parameters(command: Any) -> Roff:
    """Describe what a command takes, in the words of its help."""
    for parameter in command.params:
        record = None if getattr(parameter, "hidden", False) else parameter.get_help_record(_context(command))
        if record is not None:
            yield from _item(*record)


def _context(command: Any) -> Any:
    return command.context_class(command)


def _argparse_options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        yield ", ".join(action.option_strings), action.help or ""


def _text(text: str) -> str:
    """Write running text; a line that begins with a dot or a quote would be a request."""
    escaped = _escaped(" ".join(text.split()))
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return plain.replace("…", "...").replace("—", "\\(em")


def completions() -> dict[str, str]:
    """Return the completion scripts by the names that the shells look for."""
    names = {"bash": "assay", "zsh": "_assay", "fish": "assay.fish"}
    return {
        name: get_completion_script(prog_name="assay", complete_var="_ASSAY_COMPLETE", shell=shell) + "\n"
        for shell, name in names.items()
    }


def main(arguments: Sequence[str]) -> int:
    """Write what is asked for into a folder."""
    what, folder = arguments
    wanted = {
        "man": lambda: {
            "assay.1": client_page(),
            "assayd.8": daemon_page(),
            "assayd-gateway.8": gateway_page(),
            "assayd-node.8": node_page(),
        },
        "completions": completions,
    }
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in wanted[what]().items():
        Path(folder, name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
