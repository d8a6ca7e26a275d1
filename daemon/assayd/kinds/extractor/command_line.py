"""The kind `extractor` on the command line: how a file becomes a payload."""

from __future__ import annotations

from collections.abc import Mapping

from assayd.errors import RequestError
from assayd.ports.command_line import FileOptions, KindCommandLine, read_single_file

command_line = KindCommandLine(
    from_files="assayd.kinds.extractor.command_line:from_files",
    case="path",
)

RULES = frozenset({".yaml", ".yml"})
"""File name suffixes of extraction rules."""


def from_files(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Return the payload for one file and its sample paths.

    Raises: RequestError ``request.options``, if an option isn't accepted; ``request.sample_paths``, if
    sample paths are missing.
    """
    code = read_single_file(files, what="an extractor", also=RULES)
    if options.input is not None or options.extra:
        raise RequestError("request.options", "an extractor doesn't accept --input or --option")
    if not options.sample_paths:
        message = "an extractor needs at least one --sample-path"
        raise RequestError("request.sample_paths", message, field="payload.sample_paths")
    return {"code": code, "sample_paths": list(options.sample_paths)}
