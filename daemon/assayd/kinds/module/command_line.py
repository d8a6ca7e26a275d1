"""The command-line description of the kind `module`."""

from assayd.ports.command_line import KindCommandLine

command_line = KindCommandLine(
    from_files="assayd.kinds.module.submission:read_files",
    case="test",
    cases_have_results=False,
)
