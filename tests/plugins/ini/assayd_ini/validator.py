"""INI files: lines that can be read, and fields of the declared types.

Static: syntax. Then one run in a container, in which Python's reader expands and converts the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from assayd.findings import python_failures, runs
from assayd.kind import Cap, Kind, Stage
from assayd.model.finding import Finding
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import Document, Example, PromptContext, Proposal
from assayd.model.report import Judgement
from assayd.model.run import Limits, Program, RunResult, RunSpec, Unit
from assayd_ini import judging, syntax
from assayd_ini.payload import IniContext, IniPayload
from assayd_ini.program import PROGRAM
from assayd_ini.samples import GOOD, SAMPLES


class Ini(Kind[IniPayload]):
    """The kind `ini`."""

    name = "ini"
    payload = IniPayload
    default_policy = "ini"
    bounded = MappingProxyType({"text": Cap.SOURCE})
    recorder = "assayd_ini.recorder:recorder"
    routes = "assayd_ini.routes:router"
    rules = (
        *syntax.RULES,
        *judging.RULES,
        *runs.CAUSE_RULES,
        *runs.POLICY_RULES,
        runs.LIMIT_RULE,
        runs.NOT_COMPILED_RULE,
        *python_failures.RULES,
    )
    runtime_stages = ("fields",)
    samples = SAMPLES
    task = "Write an INI file: [section], and key = value below it."
    reminders = ("Give every declared field a value of its type.",)
    code_field = "text"
    language = "ini"
    example = Example(
        request="An INI file with these fields.",
        context={name: value for name, value in SAMPLES[0].payload.items() if name != "text"},
        answer=Proposal(code=GOOD),
        reason="Gives every field a value of its type.",
    )
    generation_context = IniContext

    @property
    def stages(self) -> Sequence[Stage[IniPayload]]:
        """Return the only static stage."""
        return (Stage(name="syntax", check=_check_syntax),)

    def plan(self, payload: IniPayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan the only run."""
        arguments = {
            "source": PROGRAM,
            "filename": "ini.py",
            "namespace": {"text": payload.text, "fields": payload.fields, "complete": payload.complete},
            "results": ["result"],
            "builtins": "full",
        }
        unit = Unit(
            name=judging.UNIT, program=Program.PYTHON, arguments=arguments, deadline_s=limits.unit_timeout_s
        )
        return RunSpec(
            image=self.image, limits=limits, units=(unit,), network=policy.network, imports=policy.imports
        )

    def judge(self, payload: IniPayload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        """Judge every field."""
        return judging.judge_file(payload, result)

    def around(self, context: IniContext) -> Sequence[PromptContext]:
        """Return the fields that the file must declare."""
        fields = "\n".join(f"{name}: {kind}" for name, kind in context.fields.items())
        return (PromptContext(title="fields", text=fields),)

    def base(self, context: IniContext) -> Document:
        """Return the payload without the text."""
        return context.model_dump(mode="json")


def _check_syntax(payload: IniPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """``port 8080`` -> ini.no_value."""
    return tuple(syntax.check_lines(payload.text))


validator = Ini()
