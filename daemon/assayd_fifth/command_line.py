"""Describes the options and report formats for Fifth programs on the command line."""

from assayd.ports.command_line import KindCommandLine, KindOption

command_line = KindCommandLine(
    language="forth",
    from_files="assayd_fifth.from_files:from_files",
    options=(
        KindOption(name="task_type", help="Purpose of the program; adds advice for the next try."),
        KindOption(name="model_source", help="Model that wrote it; adds advice for the next try."),
        KindOption(name="strict_mode", help="true or false: whether a missing stack comment is an error."),
        KindOption(name="libraries", help="Libraries to load first, separated by commas."),
        KindOption(name="execute", help="true or false: whether to run the program in gforth."),
    ),
    forms={"yaml": "assayd_fifth.forms:print_yaml"},
)
