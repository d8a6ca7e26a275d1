"""Runs the static stages of a submission without recording anything, e.g. for an editor."""

from __future__ import annotations

from assayd.attempts.policy_trial import PolicyTrials
from assayd.model.merge import merge_stages
from assayd.model.report import StageReport
from assayd.model.submission import Submission


async def check_static(submission: Submission, trials: PolicyTrials, *, uid: int) -> tuple[StageReport, ...]:
    """Return the stages that an attempt would report, with run-time stages skipped; users take turns.

    Raises: RequestError, as for the submission of an attempt.
    """
    submission = await trials.admission.complete(submission, uid)
    policy, kind = trials.admission.policy(submission), trials.kinds[submission.kind]
    checked = await trials.analyst.check(kind, submission.payload, policy, flow=(uid, "static-check"))
    return merge_stages(checked.stages, kind.runtime_stages, None)
