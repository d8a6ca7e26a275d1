"""Prepares an analysis worker for pipelines by installing the readers of bash and databases."""

from __future__ import annotations

from assayd_pipeline.shell.parse import linter, reader
from assayd_pipeline.shellcheck import lint_shell
from assayd_pipeline.shfmt import read_shell
from assayd_pipeline.sql import catalog, preparer
from assayd_pipeline.sqlite_catalog import describe_sqlite
from assayd_pipeline.sqlite_preparer import SqlitePreparer


def enter() -> None:
    """Install the readers in this process: shfmt and ShellCheck for bash, SQLite for database files."""
    reader.install(read_shell)
    linter.install(lint_shell)
    catalog.install(describe_sqlite)
    preparer.install(SqlitePreparer)
