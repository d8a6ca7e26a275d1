"""What the command line shows of extractors."""

from assayd.ports.command_line import CommandLine

command_line = CommandLine(
    case="path",
)
