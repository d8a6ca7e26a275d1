"""What the command line shows of scripts."""

from assayd.ports.command_line import CommandLine, Option

command_line = CommandLine(
    from_files="assayd.kinds.script.from_files:from_files",
    options=(
        Option(name="argv", help="A program of the image with its arguments; the files are laid out for it."),
        Option(name="stdin", help="What it reads from standard input."),
        Option(name="collect", help="Files that must be there at the end, with commas between."),
    ),
)
