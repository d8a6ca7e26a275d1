"""The command-line description of the kind `script`."""

from assayd.ports.command_line import KindCommandLine, KindOption

command_line = KindCommandLine(
    from_files="assayd.kinds.script.from_files:from_files",
    options=(
        KindOption(
            name="argv",
            help="Program of the image with its arguments, run in the folder of the submitted files.",
        ),
        KindOption(name="stdin", help="Text for its standard input."),
        KindOption(name="collect", help="Files that must exist at the end, separated by commas."),
    ),
)
