"""A gateway's signatures of the verdicts that nodes report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from assayd.analysis.analyst import WorkerDiedError
from assayd.documents import canonical
from assayd.errors import AssaydError, RequestError
from assayd.kind import Kind
from assayd.kinds import registry
from assayd.model.attempt import Attempt
from assayd.model.policy import Enforcement
from assayd.model.report import Case, CaseStatus, Verdict
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_attestation import signatures
from assayd_attestation.signatures import verify_envelope
from assayd_cluster.gateway.signing import RunAttester, read_facts
from support.signed import FILES, NOW, attester, sha256
from support.stores.stored_attempts import Make

POLICIES = load_policies([get_shared_data_path("policies")])
DIGEST = POLICIES.get("script").digest
REPORT: dict[str, Any] = {
    "policy_digest": DIGEST,
    "effective_limits": {"memory_mb": 100, "cpus": 0.5, "network_mode": "blocked"},
    "findings": [{"severity": "warning", "message": "m"}, {"severity": "mean"}],
    "runtime_results": {"cases": []},
    "score": None,
}
EXECUTION: dict[str, Any] = {
    "container": {"engine": "oci 1", "runtime": "crun", "image": "python", "image_digest": "sha256:1"}
}
CASES = [Case(name="a", status=CaseStatus.PASSED)]
DOCUMENT = canonical({"kind": "script", "payload": {"code": "print(1)\n"}})


@dataclass
class Preparing:
    """Prepares like a worker; fails with `problem`."""

    problem: Exception | None = None
    asked: int = 0

    async def prepare(self, validator: Kind, payload: BaseModel, *, flow: tuple[int, str]) -> BaseModel:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        return validator.prepare(payload)


def attempt(verdict: Verdict = Verdict.VALIDATED) -> Attempt:
    made = Make().attempt()
    return replace(made, verdict=verdict, enforcement=Enforcement.ENFORCE, node="node-1", run_number=2)


async def signed(
    folder: Path,
    *,
    of: Attempt | None = None,
    execution: Mapping[str, object] | None = EXECUTION,
    analyst: Preparing | None = None,
    digest: str = DIGEST,
) -> Mapping[str, Any]:
    """Return a verdict's statement."""
    public = signatures.create_key_pair(folder / "key")
    signing = RunAttester(
        attester=attester(folder / "key"),
        analyst=analyst or Preparing(),  # type: ignore[arg-type]
        kinds=registry.load_validators(()),
        policies=POLICIES,
    )
    facts = read_facts({**REPORT, "policy_digest": digest}, execution, CASES)
    envelope = await signing.attest(of or attempt(), DOCUMENT, facts, FILES, NOW)
    return verify_envelope(envelope, [public]).statement


async def test_statement_is_over_files_and_texts_of_the_gateway(tmp_path: Path) -> None:
    statement = await signed(tmp_path)
    predicate = statement["predicate"]

    assert {"name": "code", "digest": {"sha256": sha256(b"print(1)\n")}} in statement["subject"]
    assert predicate["files"] == {name: sha256(content) for name, content in FILES.items()}
    assert predicate["attempt"]["node"] == "node-1"
    assert predicate["attempt"]["run"] == 2
    assert predicate["limits"] == REPORT["effective_limits"]
    assert predicate["findings"] == {"error": 0, "warning": 1, "info": 0}
    assert predicate["cases"] == {"passed": 1}
    assert predicate["sandbox"]["image"] == {"name": "python", "digest": "sha256:1"}


@pytest.mark.parametrize(
    ("verdict", "execution", "asked", "sources"),
    [
        (Verdict.VALIDATED, None, 1, 1),
        (Verdict.FAILED, EXECUTION, 1, 1),
        (Verdict.FAILED, None, 0, 1),
        (Verdict.CANCELLED, EXECUTION, 0, 0),
        (Verdict.ERROR, None, 0, 0),
    ],
)
async def test_texts_are_prepared_if_the_static_stages_have_passed(
    verdict: Verdict, execution: Mapping[str, object] | None, asked: int, sources: int, tmp_path: Path
) -> None:
    analyst = Preparing()
    statement = await signed(tmp_path, of=attempt(verdict), execution=execution, analyst=analyst)
    assert (analyst.asked, len(statement["subject"]) - 1) == (asked, sources)


@pytest.mark.parametrize(
    "problem", [WorkerDiedError("too deep"), AssaydError("analysis.unavailable", "no worker")]
)
async def test_texts_that_cannot_be_prepared_are_not_signed(problem: Exception, tmp_path: Path) -> None:
    with pytest.raises(AssaydError, match="the submission can't be read again") as raised:
        await signed(tmp_path, analyst=Preparing(problem))
    assert raised.value.code == "attestation.failed"


async def test_verdict_by_another_profile_is_not_signed(tmp_path: Path) -> None:
    with pytest.raises(AssaydError, match="node node-1 judged by another version") as raised:
        await signed(tmp_path, digest="ab" * 32)
    assert raised.value.code == "attestation.failed"


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"policy_digest": "x" * 300}, "policy_digest"),
        ({"effective_limits": {str(number): 1 for number in range(65)}}, "effective_limits"),
        ({"effective_limits": {"memory_mb": [1]}}, "effective_limits"),
        ({"findings": [{}] * 100_000}, "findings.0.severity"),
        ({"score": 2}, "score"),
    ],
)
def test_report_with_other_facts_is_refused(changed: Mapping[str, object], place: str) -> None:
    with pytest.raises(RequestError, match=f"report or execution: {place}") as refused:
        read_facts({**REPORT, **changed}, EXECUTION, CASES)
    assert refused.value.code == "invalid"


def test_execution_without_a_container_is_refused() -> None:
    with pytest.raises(RequestError, match="report or execution: container"):
        read_facts(REPORT, {}, CASES)
