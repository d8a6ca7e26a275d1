"""The command-line description of the kind `extractor`."""

from assayd.ports.command_line import KindCommandLine

command_line = KindCommandLine(
    from_files="assayd.kinds.extractor.from_files:from_files",
    case="path",
)
