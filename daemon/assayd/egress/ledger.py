"""Records an attempt's accesses and remaining budgets, and writes their log entries and metrics."""

from __future__ import annotations

from dataclasses import replace

import structlog

from assayd.egress.decision import AccessNotServedError, InvalidTarget, Target, build_rule_violation_error
from assayd.findings.network_rules import NetworkRule
from assayd.guest.frames import MIN_COST
from assayd.metrics import Metrics
from assayd.model.run import AccessProtocol, NetworkEvent
from assayd.ports.clock import Clock
from assayd.ports.egress import EgressLimits

log = structlog.get_logger()


class LedgerEntry:
    """One access in progress."""

    def __init__(self, ledger: EgressLedger, unit: int, target: Target | InvalidTarget) -> None:
        self._ledger = ledger
        self.unit = unit
        self._began = ledger.clock.monotonic()
        self._open = True
        self.event = NetworkEvent(
            host=target.host,
            port=target.port,
            via=target.via,
            method=target.method,
            allowed=True,
            rule=NetworkRule.LISTED.value,
            reason="",
        )

    def record_address(self, address: str) -> None:
        """Record the address to which the access is connected."""
        self.event = replace(self.event, address=address)

    def sent(self, count: int) -> None:
        """Count bytes that were forwarded to the host."""
        self.event = replace(self.event, bytes_up=self.event.bytes_up + count)

    def received(self, count: int) -> None:
        """Count bytes received from the host.

        Raises: AccessNotServedError, if the attempt has reached its limit.
        """
        self.event = replace(self.event, bytes_down=self.event.bytes_down + count)
        self._ledger.spend_received_bytes(count)

    def charge_excess_cost(self, extra: int) -> None:
        """Charge the part of the events' cost that exceeds their bytes.

        Raises: AccessNotServedError, at the limit.
        """
        self._ledger.charge_host_bytes(extra)

    def record_failure(self, end: AccessNotServedError) -> None:
        """Record the reason why the access wasn't served completely."""
        if isinstance(end.why, NetworkRule):
            self.event = replace(self.event, allowed=False, rule=end.why.value, reason=end.reason)
        else:
            self.event = replace(self.event, trouble=end.why.value)

    def mark_unfinished(self) -> None:
        """Record that the unit ended before the access."""
        self.event = replace(self.event, finished=False)

    def close(self) -> None:
        """Record the end of the access. Further calls do nothing."""
        if self._open:
            self._open = False
            duration_s = self._ledger.clock.monotonic() - self._began
            self.event = replace(self.event, duration_s=duration_s)
            self._ledger.log_event(self.event)


class EgressLedger:
    """The ledger of one attempt, with all of its accesses."""

    def __init__(self, limits: EgressLimits, clock: Clock, metrics: Metrics) -> None:
        self.clock = clock
        self._metrics = metrics
        self._connections = limits.connections
        self._up = limits.bytes_up
        self._down = limits.bytes_down
        self._entries: list[LedgerEntry] = []
        self._used_up: set[int] = set()

    def open(self, unit: int, target: Target | InvalidTarget) -> LedgerEntry:
        """Begin an access.

        Raises: AccessNotServedError, if the attempt has reached its limit; this is recorded once per unit.
        """
        if len(self._entries) >= self._connections:
            self.record_limit_exceeded(unit, target)
            raise build_rule_violation_error(NetworkRule.TOO_MANY_CONNECTIONS)
        entry = LedgerEntry(self, unit, target)
        self._entries.append(entry)
        return entry

    def record_unreadable(self, unit: int, end: AccessNotServedError) -> None:
        """Record an unreadable request.

        Raises: AccessNotServedError, if the attempt has reached its limit.
        """
        entry = self.open(unit, InvalidTarget(via=AccessProtocol.HTTP, rule=NetworkRule.HTTP_MALFORMED))
        entry.record_failure(end)
        entry.close()

    def record_limit_exceeded(self, unit: int, target: Target | InvalidTarget | None = None) -> None:
        """Record, once per unit, that the unit exceeded the limit on connections."""
        if unit not in self._used_up:
            self._used_up.add(unit)
            entry = LedgerEntry(
                self,
                unit,
                target or InvalidTarget(via=AccessProtocol.TLS, rule=NetworkRule.TOO_MANY_CONNECTIONS),
            )
            self._entries.append(entry)
            entry.record_failure(build_rule_violation_error(NetworkRule.TOO_MANY_CONNECTIONS))
            entry.close()

    def spend_sent_bytes(self, count: int) -> None:
        """Charge bytes to the budget of sent bytes.

        Raises: AccessNotServedError, if the budget is exceeded.
        """
        self._metrics.egress_bytes.labels("up").inc(count)
        self.charge_guest_bytes(max(count, MIN_COST))

    def spend_received_bytes(self, count: int) -> None:
        """Charge bytes to the budget of received bytes.

        Raises: AccessNotServedError, if the budget is exceeded.
        """
        self._metrics.egress_bytes.labels("down").inc(count)
        self.charge_host_bytes(max(count, MIN_COST))

    def charge_guest_bytes(self, cost: int) -> None:
        """Charge the bytes read from guest code. Raises: AccessNotServedError, if the budget is exceeded."""
        self._up -= cost
        if self._up < 0:
            raise build_rule_violation_error(NetworkRule.TOO_MANY_BYTES)

    def charge_host_bytes(self, cost: int) -> None:
        """Charge the bytes read from a host. Raises: AccessNotServedError, if the budget is exceeded."""
        self._down -= cost
        if self._down < 0:
            raise build_rule_violation_error(NetworkRule.TOO_MANY_BYTES)

    def events(self, unit: int) -> tuple[NetworkEvent, ...]:
        """Return the accesses of a unit as events, in order."""
        return tuple(entry.event for entry in self._entries if entry.unit == unit)

    def log_event(self, event: NetworkEvent) -> None:
        """Write the log entry and the metrics of a finished access."""
        self._metrics.egress_accesses.labels(event.trouble or event.rule).inc()
        log.info(
            "egress.served" if event.allowed else "egress.refused",
            host=event.host,
            port=event.port,
            via=event.via.value,
            rule=event.rule,
            trouble=event.trouble,
            address=event.address,
            bytes_up=event.bytes_up,
            bytes_down=event.bytes_down,
            duration_ms=round(event.duration_s * 1000, 3),
        )
