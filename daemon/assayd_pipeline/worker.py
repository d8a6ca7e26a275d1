"""Prepares an analysis worker for pipelines by installing the readers of bash and databases."""

from __future__ import annotations

from assayd_pipeline.shell.parse import linter, reader
from assayd_pipeline.shell_programs import lint_shell, read_shell
from assayd_pipeline.sql import catalog, preparer
from assayd_pipeline.sqlite_reader import SqlitePreparer, describe_sqlite


def install_readers() -> None:
    """Install the readers in this process: shfmt and ShellCheck for bash, SQLite for database files."""
    reader.install_reader(read_shell)
    linter.install_linter(lint_shell)
    catalog.install_reader(describe_sqlite)
    preparer.install_opener(SqlitePreparer)
