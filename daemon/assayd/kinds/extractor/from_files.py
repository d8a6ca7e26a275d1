"""Builds an extractor's payload from a file given on the command line."""

from __future__ import annotations

from collections.abc import Mapping

from assayd.errors import RequestError
from assayd.ports.command_line import FileOptions, read_single_file

RULES = frozenset({".yaml", ".yml"})
"""Files of extraction rules."""


def from_files(files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
    """Return the payload for one file and its sample paths.

    Raises: RequestError ``request.options``, ``request.sample_paths``.
    """
    code = read_single_file(files, what="an extractor", also=RULES)
    if options.input is not None or options.extra:
        raise RequestError("request.options", "an extractor doesn't accept --input or --option")
    if not options.sample_paths:
        message = "an extractor needs at least one --sample-path"
        raise RequestError("request.sample_paths", message, field="payload.sample_paths")
    return {"code": code, "sample_paths": list(options.sample_paths)}
