"""What the command line shows of pipelines."""

from assayd.ports.command_line import CommandLine

command_line = CommandLine(
    case="step",
    forms={"steps": "assayd.kinds.pipeline.forms:print_steps"},
    commands="assayd.kinds.pipeline.commands:pipeline_app",
)
