"""Describes pipelines for the command line."""

from assayd.ports.command_line import KindCommandLine

command_line = KindCommandLine(
    from_files="assayd_pipeline.from_files:from_files",
    case="step",
    forms={"steps": "assayd_pipeline.forms:print_steps"},
    data_folder="data",
    commands_help="Show stored pipelines, and apply their results.",
    commands="assayd_pipeline.commands:pipeline_app",
)
