"""The command-line description of the kind `extractor`."""

from assayd.ports.command_line import CommandLine

command_line = CommandLine(
    from_files="assayd.kinds.extractor.from_files:from_files",
    case="path",
)
