"""The command line's output for INI files."""

from assayd.ports.command_line import CommandLine, Option

command_line = CommandLine(
    case="field",
    options=(
        Option(name="fields", help="Fields with their types, e.g. server.port:int,server.host:str."),
        Option(name="complete", help="true or false: whether fields that are not declared are refused."),
    ),
    from_files="assayd_ini.payload:payload_of",
    forms={"flat": "assayd_ini.forms:print_flat"},
    commands="assayd_ini.commands:app",
)
