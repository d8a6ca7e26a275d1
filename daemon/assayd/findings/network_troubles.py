"""Words findings of a run by what its accesses to listed hosts came to, where there is an allowlist.

A finding that is made of an exception or of a timeout alone blames the code: "a loop that never ends", "the
profile blocks the network". The relay knows better which host hung, was down, or could not be asked.

    The code ran out of time (after 5 s).   api.example.com:443 had not answered to its end when time was up …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from assayd.findings.network_errors import reaches_for_network
from assayd.findings.network_rules import TROUBLES, NetworkTrouble
from assayd.model.finding import Finding
from assayd.model.report import Judgement
from assayd.model.run import Cause, NetworkEvent, RunResult

_LATE = frozenset({"sandbox.timeout", "tests.hung"})
_WAITED = frozenset({NetworkTrouble.IDLE, NetworkTrouble.TIMED_OUT, NetworkTrouble.RELAY_FULL})
_UNFINISHED = "had not answered to its end when the time was up"
_USE_PROXY = (
    "Under this profile ask for listed hosts only, with a client that takes its proxy from HTTP_PROXY and "
    "HTTPS_PROXY; for aiohttp: trust_env=True."
)
_SET_TIMEOUT = "Give the client a timeout that is shorter than the unit's, and handle its exception."


def with_network_words(judgement: Judgement, result: RunResult) -> Judgement:
    """Return the judgement of a run under an allowlist with what the relay knows in its suggestions."""
    waited = _last(
        event for event in _late_accesses(result) if not event.finished or event.trouble in _WAITED
    )
    failed = _last(event for unit in result.units for event in unit.network if event.trouble is not None)
    stages = {
        stage: tuple(_worded(finding, waited, failed) for finding in findings)
        for stage, findings in judgement.stage_findings.items()
    }
    return replace(judgement, stage_findings=stages)


def _worded(finding: Finding, waited: NetworkEvent | None, failed: NetworkEvent | None) -> Finding:
    if finding.rule in _LATE and waited is not None:
        return replace(finding, suggestion=f"{_told(waited)}. {_SET_TIMEOUT}")
    if reaches_for_network(finding.suggestion):
        return replace(finding, suggestion=f"{_told(failed)}." if failed is not None else _USE_PROXY)
    return finding


def _late_accesses(result: RunResult) -> Iterator[NetworkEvent]:
    """Return what the units that ran out of time had asked for."""
    for unit in result.units:
        if unit.outcome.cause is Cause.TIMEOUT:
            yield from (event for event in unit.network if event.allowed)


def _told(event: NetworkEvent) -> str:
    place = event.host if event.port is None else f"{event.host}:{event.port}"
    return (
        f"{place} {_UNFINISHED}"
        if event.trouble is None
        else f"{place}: {TROUBLES[NetworkTrouble(event.trouble)]}"
    )


def _last(events: Iterable[NetworkEvent]) -> NetworkEvent | None:
    return next(iter([*events][-1:]), None)
