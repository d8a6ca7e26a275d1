"""`assay console`: starts the console, where its packages are installed."""

from __future__ import annotations

from pathlib import Path

from assayd.errors import RequestError
from assayd_client import Target
from assayd_client.cli.exits import VALIDATED

NEEDS = "assay console needs packages that are missing here: pip install 'assayd-client[console]'"


def serve(daemon: Target, *, port: int, link_file: Path | None) -> int:
    """Serve the console until the program is ended."""
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as missing:
        raise RequestError("usage", NEEDS) from missing
    from assayd_console.serving import serve as serve_console

    serve_console(daemon, port=port, link_file=link_file)
    return VALIDATED
