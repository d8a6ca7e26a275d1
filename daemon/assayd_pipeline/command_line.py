"""Pipelines on the command line: options, forms and commands, and how files become a payload."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import PurePosixPath

from assayd.errors import RequestError
from assayd.ports.command_line import FileOptions, KindCommandLine, encode_payload_value, text_of

command_line = KindCommandLine(
    from_files="assayd_pipeline.command_line:from_files",
    case="step",
    forms={"steps": "assayd_pipeline.forms:print_steps"},
    data_folder="data",
    commands_help="Show stored pipelines, and apply their results.",
    commands="assayd_pipeline_commands.app:pipeline_app",
)

SQLITE_HEADER = b"SQLite format 3\0"
SCHEMA_FILE = "schema.sql"
"""The name of a database's schema file."""

_DATABASE_SUFFIXES = frozenset({".db", ".sqlite", ".sqlite3"})
_PIPELINE_OPTIONS = {"pipeline_id", "sample_rows"}
_STEP_TYPE_BY_SUFFIX = {".sh": "bash", ".sql": "sql"}


def from_files(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Return a payload from ``*.sh`` and ``*.sql`` files (the steps, in name order) and data files.

    ``schema.sql`` is the schema; ``*.db`` and ``*.sqlite`` are the database. Other files keep their folder;
    files without a folder are placed in ``data/``.

    Raises: RequestError ``request.options``, for an unsupported option; ``request.files``, for two databases.
    """
    if options.input is not None or options.sample_paths or options.extra.keys() - _PIPELINE_OPTIONS:
        message = "a pipeline accepts only files, --option pipeline_id=ID and --sample-rows"
        raise RequestError("request.options", message)
    extra = dict(options.extra)
    shows_rows = extra.pop("sample_rows", "false") == "true"
    payload = _build_payload(files)
    if not shows_rows:
        return {**payload, **extra}
    database = payload["database"]
    if not isinstance(database, dict) or "base64" not in database:
        message = "--sample-rows needs a database file"
        raise RequestError("request.options", message, field="database")
    return {**payload, "database": {**database, "sample_rows": True}, **extra}


def _build_payload(files: Mapping[str, bytes]) -> Mapping[str, object]:
    """Build a payload from the files on a command line. Raises: RequestError ``request.files``."""
    steps: list[object] = []
    staged: dict[str, object] = {}
    databases: dict[str, object] = {}
    for name in sorted(files):
        path, content = PurePosixPath(name), files[name]
        if path.suffix in _DATABASE_SUFFIXES or content.startswith(SQLITE_HEADER):
            databases[name] = {"base64": b64encode(content).decode()}
        elif path.name == SCHEMA_FILE:
            databases[name] = {"schema_sql": text_of(name, content)}
        elif path.suffix in _STEP_TYPE_BY_SUFFIX:
            kind = _STEP_TYPE_BY_SUFFIX[path.suffix]
            steps.append({"name": path.stem, "type": kind, "content": text_of(name, content)})
        else:
            staged[command_line.container_path(name)] = encode_payload_value(content)
    if len(databases) > 1:
        message = f"a pipeline can have only one database, not {', '.join(databases)}"
        raise RequestError("request.files", message, field="files")
    return {"steps": steps, "files": staged, "database": next(iter(databases.values()), None)}
