"""What the command line shows of modules."""

from assayd.ports.command_line import CommandLine

command_line = CommandLine(
    case="test",
    cases_have_results=False,
)
