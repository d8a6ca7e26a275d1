"""What the command line shows of Fifth programs."""

from assayd.ports.command_line import CommandLine, Option

command_line = CommandLine(
    language="forth",
    from_files="assayd_fifth.from_files:from_files",
    options=(
        Option(
            name="task_type", help="What the program was asked for, which steers what another try is told."
        ),
        Option(name="model_source", help="Which model wrote it, which steers the same."),
        Option(name="strict_mode", help="true or false: whether a missing stack comment is an error."),
        Option(name="libraries", help="Libraries that are loaded before it, with commas between."),
        Option(name="execute", help="true or false: whether it is run in gforth."),
    ),
    forms={"yaml": "assayd_fifth.forms:print_yaml"},
)
