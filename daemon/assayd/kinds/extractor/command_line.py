"""The command-line description of extractors."""

from assayd.ports.command_line import CommandLine

command_line = CommandLine(
    from_files="assayd.kinds.extractor.from_files:from_files",
    case="path",
)
