"""The command-line description of the kind `script`."""

from assayd.ports.command_line import CommandLine, Option

command_line = CommandLine(
    from_files="assayd.kinds.script.from_files:from_files",
    options=(
        Option(
            name="argv",
            help="Program of the image with its arguments, run in the folder of the submitted files.",
        ),
        Option(name="stdin", help="Text for its standard input."),
        Option(name="collect", help="Files that must exist at the end, separated by commas."),
    ),
)
