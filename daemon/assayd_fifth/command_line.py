"""Describes the options and report formats for Fifth programs on the command line."""

from assayd.ports.command_line import CommandLine, Option

command_line = CommandLine(
    language="forth",
    from_files="assayd_fifth.from_files:from_files",
    options=(
        Option(name="task_type", help="Purpose of the program; adds advice for the next try."),
        Option(name="model_source", help="Model that wrote it; adds advice for the next try."),
        Option(name="strict_mode", help="true or false: whether a missing stack comment is an error."),
        Option(name="libraries", help="Libraries to load first, separated by commas."),
        Option(name="execute", help="true or false: whether to run the program in gforth."),
    ),
    forms={"yaml": "assayd_fifth.forms:print_yaml"},
)
