"""The command-line description of the kind `code`."""

from assayd.ports.command_line import CommandLine, Option

command_line = CommandLine(
    from_files="assayd.kinds.code.from_files:from_files",
    case="node",
    options=(
        Option(name="timeout_s", help="Seconds for the code node, at most the policy's limit."),
        Option(name="requires", help="Modules that the code needs, separated by commas."),
    ),
)
