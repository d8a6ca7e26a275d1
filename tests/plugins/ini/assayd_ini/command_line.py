"""The command line's output for INI files."""

from assayd.ports.command_line import KindCommandLine, KindOption

command_line = KindCommandLine(
    case="field",
    options=(
        KindOption(name="fields", help="Fields with their types, e.g. server.port:int,server.host:str."),
        KindOption(name="complete", help="true or false: whether fields that are not declared are refused."),
    ),
    from_files="assayd_ini.payload:payload_of",
    forms={"flat": "assayd_ini.forms:print_flat"},
    commands="assayd_ini.commands:app",
)
