"""`assayd`: runs the daemon, or prints its effective configuration."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from assayd import __version__
from assayd.program import disable_gc_during_imports, run_for_exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon until a signal stops it, or print the information that an option requests.

    Return the exit code.
    """
    chosen = _build_parser().parse_args(arguments)
    return run_for_exit_code("assayd", lambda: _run(chosen))


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="assayd",
        description="Validate untrusted code in throwaway containers, for clients on a Unix socket.",
        epilog="Settings: /etc/assayd/assayd.toml, or the file named by ASSAYD_CONFIG; then ASSAYD_*.",
    )
    parser.add_argument("--version", action="version", version=f"assayd {__version__}")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--print-config", action="store_true", help="show the settings and their origins")
    only.add_argument("--check-config", action="store_true", help="check settings and policies, then exit")
    only.add_argument(
        "--sample-config", action="store_true", help="print a settings file that documents every setting"
    )
    only.add_argument(
        "--sbom", action="store_true", help="print the daemon's libraries as a CycloneDX document"
    )
    only.add_argument(
        "--acknowledge-copy",
        action="store_true",
        help="accept that the state directory is a copy, stop warning about it, then exit",
    )
    return parser


def _run(chosen: argparse.Namespace) -> int:
    if chosen.sbom:
        from assayd.imaging.sbom import build_environment_sbom

        print(build_environment_sbom().decode(), end="")
        return 0
    from assayd.settings import list_effective_settings, load_settings, render_sample_settings

    if chosen.sample_config:
        print(render_sample_settings(), end="")
        return 0
    settings = load_settings()
    if chosen.print_config:
        print(
            "\n".join(
                f"{row.name} = {row.value}\t# {row.source}" for row in list_effective_settings(settings)
            )
        )
        return 0
    if chosen.acknowledge_copy:
        from assayd.wiring.identity import acknowledge_copy

        former = acknowledge_copy(settings.state_dir)
        whose = "isn't a copy" if former is None else f"was a copy of daemon {former}'s"
        print(f"{settings.state_dir} {whose}")
        return 0
    if chosen.check_config:
        from assayd.wiring.profiles import check_settings

        check_settings(settings)
        print("settings and policies are valid")
        return 0
    with disable_gc_during_imports():
        from assayd.daemon import run

    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
