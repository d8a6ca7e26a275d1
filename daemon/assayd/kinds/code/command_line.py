"""The command-line description of the kind `code`."""

from assayd.ports.command_line import KindCommandLine, KindOption

command_line = KindCommandLine(
    from_files="assayd.kinds.code.from_files:from_files",
    case="node",
    options=(
        KindOption(name="timeout_s", help="Seconds for the code node, at most the policy's limit."),
        KindOption(name="requires", help="Modules that the code needs, separated by commas."),
    ),
)
