"""What the command line shows of pipelines."""

from assayd.ports.command_line import CommandLine

command_line = CommandLine(
    from_files="assayd.kinds.pipeline.from_files:from_files",
    case="step",
    forms={"steps": "assayd.kinds.pipeline.forms:print_steps"},
    data_folder="data",
    commands_help="Look at stored pipelines, and apply results.",
    commands="assayd.kinds.pipeline.commands:pipeline_app",
)
