"""The command-line description of the kind `solution`."""

from assayd.ports.command_line import KindCommandLine, KindOption

command_line = KindCommandLine(
    from_files="assayd.kinds.solution.from_files:from_files",
    case="test",
    cases_have_results=False,
    options=(
        KindOption(name="tests", help="A file with the hidden tests, as --tests passes it."),
        KindOption(name="entry", help="The function or class that the tests call, as --entry passes it."),
        KindOption(name="context", help="Python that both sides run first, as text."),
        KindOption(name="reveal", help="What may be shown of the tests: none, names, messages or all."),
        KindOption(
            name="trust_objects", help="Let objects of the solution compare themselves: true or false."
        ),
    ),
)
