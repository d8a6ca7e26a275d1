"""INI files: lines that can be read, and fields of the declared types.

Static: syntax. Then one run in a container, in which Python's reader expands and converts the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from assayd.findings import python_failures, runs
from assayd.findings.briefing import answer_schema
from assayd.findings.repair_context import context_of, without_layout
from assayd.findings.retry_context import retry_context
from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement
from assayd.model.run import Limits, Program, RunResult, RunSpec, Unit
from assayd.model.submission import Sample
from assayd.ports.generatable import Briefing, Example, Proposal
from assayd.ports.repairable import Passage, RepairContext, Surrounding
from assayd.ports.validator import Cap, FileOptions, Stage, Validator
from assayd_ini import judging, syntax
from assayd_ini.payload import IniContext, IniPayload, payload_of
from assayd_ini.program import PROGRAM
from assayd_ini.samples import SAMPLES


class Ini:
    """The kind `ini`."""

    kind: str = "ini"
    payload: type[IniPayload] = IniPayload
    default_policy: str = "code"
    image: str = "python"
    bounded: Mapping[str, Cap] = MappingProxyType({"text": Cap.SOURCE})
    recorder: str = "assayd_ini.recorder:recorder"
    routes: str = "assayd_ini.routes:router"
    rules: Sequence[Rule] = (
        *syntax.RULES,
        *judging.RULES,
        *runs.CAUSE_RULES,
        *runs.POLICY_RULES,
        runs.LIMIT_RULE,
        runs.NOT_COMPILED_RULE,
        *python_failures.RULES,
    )
    runtime_stages: Sequence[str] = ("fields",)
    samples: Sequence[Sample] = SAMPLES
    generation_context: type[IniContext] = IniContext
    forms: frozenset[str] = frozenset({"code"})

    @property
    def stages(self) -> Sequence[Stage[IniPayload]]:
        """The one static stage."""
        return (Stage(name="syntax", check=_check_syntax),)

    def from_files(self, files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        """Build a payload of one file and the declared fields."""
        return payload_of(files, options)

    def prepare(self, payload: IniPayload) -> IniPayload:
        """Return the payload as it came."""
        return payload

    def plan(self, payload: IniPayload, policy: ExecutionPolicy, limits: Limits) -> RunSpec:
        """Plan the one run."""
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

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        """Word a failed stage for a model."""
        return retry_context(findings, headline=f"The INI file failed at {stage}:")

    def context(
        self, payload: IniPayload, report: Mapping[str, object], policy: ExecutionPolicy | None = None
    ) -> RepairContext:
        """Ask for the file again, with what its report says."""
        return context_of(
            Passage(name="text", language="ini", text=payload.text),
            report,
            instructions=("Write an INI file: [section], and key = value below it.",),
            runtime_stages=self.runtime_stages,
        )

    def patch(self, payload: IniPayload, passage: str, code: str) -> Mapping[str, object]:
        """Put another text in the place of the file."""
        return {**payload.model_dump(mode="json", exclude_unset=True), "text": code}

    def normal_form(self, payload: IniPayload) -> bytes:
        """Return the lines without layout and comments."""
        return without_layout(payload.text, "#")

    def brief(self, context: IniContext, policy: ExecutionPolicy) -> Briefing:
        """Return what a model is told before it writes."""
        fields = "\n".join(f"{name}: {kind}" for name, kind in context.fields.items())
        good = next(sample for sample in SAMPLES if sample.verdict == "validated")
        return Briefing(
            task="Write an INI file: [section], and key = value below it.",
            rules=("Give every declared field a value of its type.",),
            example=Example(
                request="An INI file with these fields.",
                context={"fields": good.payload["fields"]},
                answer=Proposal(code=str(good.payload["text"])),
                reason="Gives every field a value of its type.",
            ),
            schema=answer_schema("code"),
            surroundings=(Surrounding(title="fields", text=fields),),
        )

    def base(self, context: IniContext) -> Mapping[str, object]:
        """Return the payload without the text."""
        return context.model_dump(mode="json")

    def answered(self, base: Mapping[str, object], proposal: Proposal) -> Mapping[str, object]:
        """Return a payload with the text that was proposed."""
        return {**base, "text": proposal.code}


def _check_syntax(payload: IniPayload, _: ExecutionPolicy) -> Sequence[Finding]:
    """``port 8080`` -> ini.no_value."""
    return tuple(syntax.check_lines(payload.text))


validator: Validator[IniPayload] = Ini()
