"""Requirements that every kind of submission must meet."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from assayd.analysis.analyst import AnalysisLimits, Analyst
from assayd.attempts.samples import SelfTest
from assayd.kind import Kind
from assayd.kinds import registry as validators
from assayd.model.run import Limits, derive_attempt_limits
from assayd.model.submission import Sample
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from support.engines.oci import make_one_engine
from support.engines.sandboxes import sandbox_on

KINDS = validators.load_validators(())
SAMPLES = [
    pytest.param(validator, sample, id=f"{validator.name}-{sample.name}".replace(" ", "-"))
    for validator in KINDS.values()
    for sample in validator.samples
]
CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def selftest(request: pytest.FixtureRequest) -> AsyncIterator[SelfTest]:
    engine = make_one_engine(request)
    try:
        async with sandbox_on(engine, ready=2) as sandbox, Analyst(AnalysisLimits()).running() as analyst:
            yield SelfTest(analyst, sandbox)
    finally:
        await engine.close()


@pytest.mark.engine
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("validator", "sample"), SAMPLES)
async def test_each_sample_gets_its_verdict_and_rules(selftest: SelfTest, validator: Kind, sample: Sample):
    policy = load_policies([get_shared_data_path("policies")]).get(validator.default_policy)
    limits = derive_attempt_limits(policy, CAPS)
    complaints = await selftest.run_sample(validator, sample, policy=policy, limits=limits)
    assert complaints == []


@pytest.mark.parametrize("validator", KINDS.values(), ids=KINDS)
def test_each_kind_proves_itself_by_good_and_bad_samples(validator: Kind):
    verdicts = {sample.verdict for sample in validator.samples}
    assert verdicts >= {"validated", "failed"}


@pytest.mark.parametrize("validator", KINDS.values(), ids=KINDS)
def test_rules_are_told_apart_and_explained(validator: Kind):
    ids = [rule.id for rule in validator.rules]
    assert len(ids) == len(set(ids))
    assert all(rule.title and "." in rule.id for rule in validator.rules)
    assert {name for sample in validator.samples for name in sample.rules} <= set(ids)


@pytest.mark.parametrize("validator", KINDS.values(), ids=KINDS)
def test_stage_names_are_distinct(validator: Kind):
    names = [*(stage.name for stage in validator.stages), *validator.runtime_stages]
    assert len(names) == len(set(names))
