"""Prepares an analysis worker for pipelines by installing the readers of bash and databases."""

from __future__ import annotations

from assayd_pipeline.shell.parse import linter, reader
from assayd_pipeline.shell_programs import lint_shell, read_shell
from assayd_pipeline.sql import catalog, preparer
from assayd_pipeline.sqlite_reader import SqlitePreparer, describe_sqlite


def enter() -> None:
    """Install the readers in this process: shfmt and ShellCheck for bash, SQLite for database files."""
    reader.install(read_shell)
    linter.install(lint_shell)
    catalog.install(describe_sqlite)
    preparer.install(SqlitePreparer)
