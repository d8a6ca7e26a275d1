"""Prepares an analysis worker for pipelines: the programs that read bash and database files."""

from __future__ import annotations

from assayd_pipeline.shell.parse import linter, reader
from assayd_pipeline.shellcheck import lint_shell
from assayd_pipeline.shfmt import read_shell
from assayd_pipeline.sql import catalog
from assayd_pipeline.sqlite_catalog import describe_sqlite


def enter() -> None:
    """Let the checks in this process read bash with shfmt and ShellCheck, and database files with SQLite."""
    reader.install(read_shell)
    linter.install(lint_shell)
    catalog.install(describe_sqlite)
