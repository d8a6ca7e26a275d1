"""Minutes of good and hostile attempts while containers, engine connection and daemon are killed at random.

    python tests/soak.py --minutes 3 [--seed N] [--clients N]

Prints what was lost or left; exit code 1 when anything was. Allowed is the verdict `error`: our trouble,
said as such. Never allowed: a wrong verdict, none, two, a third run, or anything that outlives its attempt.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from assayd.clock import UlidGenerator
from assayd_client import ClientError, DaemonUnreachable, Document, PlainClient
from support.daemons.daemon_process import DaemonProcess, new_home
from support.engines.cuttable_engine import CuttableEngine
from support.texts import extractors
from support.texts.extractors import extractor

KINDS = {
    "good": (extractor(extractors.GOOD), "validated"),
    "loud": (extractor(extractors.LOUD, *(f"{extractors.PATH}.{n}" for n in range(5))), "validated"),
    "refused": (extractor(extractors.PROCESSES), "failed"),
    "raising": (extractor(extractors.RAISES), "failed"),
    "endless": (extractor(extractors.LOOP, seconds=1), "failed"),
    "greedy": (extractor(extractors.GREEDY, seconds=2), "failed"),
    "noisy": (extractor(extractors.NOISY, seconds=2), "failed"),
}
WEIGHTS = (6, 3, 4, 3, 2, 1, 1)
PAUSE_S = 0.2
CALM_S = 60.0
MORE_DESCRIPTORS = 32
"""Connections and idle containers' streams that a daemon may hold after load, but not before."""


@dataclass
class Ledger:
    """The submitted attempts and their answers."""

    sent: dict[str, str] = field(default_factory=dict)
    answered: dict[str, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)

    def problems(self, daemon: DaemonProcess) -> list[str]:
        """Return the differences from the daemon's records."""
        rows = {row["attempt_id"]: row for row in daemon.rows("SELECT * FROM verdicts")}
        accepted = {row["id"] for row in daemon.rows("SELECT id FROM attempts")}
        found = [f"{each}: no verdict" for each in accepted - rows.keys()]
        found += [f"{each}: answered, but not on record" for each in self.answered.keys() - rows.keys()]
        found += [
            f"{each}: answered {answer}, recorded {rows[each]['verdict']}"
            for each, answer in self.answered.items()
            if each in rows and answer != rows[each]["verdict"]
        ]
        found += [
            f"{each}: {self.sent[each]} came to {row['verdict']} ({row['cause']})"
            for each, row in rows.items()
            if each in self.sent and row["verdict"] not in {KINDS[self.sent[each]][1], "error"}
        ]
        found += [
            f"{row['attempt_id']}: {row['n']} runs"
            for row in daemon.rows("SELECT attempt_id, count(*) AS n FROM runs GROUP BY 1 HAVING n > 2")
        ]
        artifacts = daemon.state / "artifacts"
        found += [f"{path}: left by a write" for path in artifacts.rglob(".tmp-*")]
        found += [
            f"{each}: its bundle is not there"
            for each, row in rows.items()
            if row["bundle"] and not (artifacts / row["bundle"] / "manifest.json").is_file()
        ]
        return found


class Clients:
    """Threads that submit attempts one after the other, and keep trying while the daemon is unreachable."""

    def __init__(self, daemon: DaemonProcess, ledger: Ledger, chance: random.Random) -> None:
        self._daemon = daemon
        self._ledger = ledger
        self._chance = chance
        self._ids = UlidGenerator()
        self._lock = threading.Lock()
        self.stop = threading.Event()
        self.threads: list[threading.Thread] = []

    def start(self, count: int) -> None:
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _work(self) -> None:
        while not self.stop.is_set():
            with self._lock:
                attempt_id = self._ids.new()
                kind = self._chance.choices(list(KINDS), WEIGHTS)[0]
                self._ledger.sent[attempt_id] = kind
            attempt = self._see_through(attempt_id, KINDS[kind][0])
            with self._lock:
                self._ledger.answered[attempt_id] = attempt["verdict"]
                self._ledger.done[f"{kind} {attempt['verdict']}"] += 1

    def _see_through(self, attempt_id: str, submission: dict[str, object]) -> Document:
        while True:
            try:
                with PlainClient(self._daemon.socket) as client:
                    attempt = client.submit(submission, attempt_id=attempt_id, wait_s=30)
                if attempt["verdict"] is not None:
                    return attempt
            except DaemonUnreachable:
                pass
            except ClientError as refusal:
                if not refusal.retryable:
                    raise
            time.sleep(PAUSE_S)


class Saboteur:
    """Causes faults, one at a time."""

    def __init__(self, daemon: DaemonProcess, proxy: CuttableEngine, chance: random.Random) -> None:
        self._daemon = daemon
        self._proxy = proxy
        self._chance = chance
        self.done: Counter[str] = Counter()

    def act(self) -> None:
        deeds = (self.kill_container, self.drop_connections, self.cut_engine, self.kill_daemon, self.restart)
        deed = self._chance.choices(deeds, (10, 5, 3, 2, 1))[0]
        deed()
        self.done[deed.__name__] += 1

    def kill_container(self) -> None:
        if containers := self._daemon.containers():
            self._daemon.kill_container(self._chance.choice(containers))

    def drop_connections(self) -> None:
        self._proxy.drop_connections()

    def cut_engine(self) -> None:
        self._proxy.cut()
        time.sleep(self._chance.uniform(0.1, 3))
        self._proxy.restore()

    def kill_daemon(self) -> None:
        self._daemon.kill()
        self._daemon.start()

    def restart(self) -> None:
        if self._daemon.stop() != 0:
            self.done["BAD EXIT"] += 1
        self._daemon.start()


def soak(minutes: float, seed: int, clients: int) -> int:
    chance = random.Random(seed)
    home = new_home()
    with CuttableEngine(home / "e", os.environ["DOCKER_HOST"]) as proxy:
        proxy.restore()
        daemon = DaemonProcess(proxy.url, home=home, settings={"LOG__LEVEL": "info"})
        try:
            return _soak(daemon, proxy, chance, minutes, clients)
        finally:
            daemon.dispose()


def _soak(
    daemon: DaemonProcess, proxy: CuttableEngine, chance: random.Random, minutes: float, clients: int
) -> int:
    daemon.start()
    ledger, saboteur = Ledger(), Saboteur(daemon, proxy, chance)
    crowd = Clients(daemon, ledger, chance)
    crowd.start(clients)
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.2, 2))
        if not daemon.alive:
            print(f"the daemon died by itself:\n{daemon.log.tail()}")
            return 1
        saboteur.act()
    crowd.stop.set()
    for thread in crowd.threads:
        thread.join(CALM_S)
    problems = ["a client still waits" for thread in crowd.threads if thread.is_alive()]
    problems += descriptors_kept(daemon)
    workers = daemon.workers()
    if daemon.stop() != 0:
        problems.append("the daemon did not stop well")
    problems += [f"process {pid} outlives the daemon" for pid in workers if Path(f"/proc/{pid}").exists()]
    problems += [f"container {each.engine_id[:12]} is left" for each in daemon.containers()]
    problems += ledger.problems(daemon)
    report(ledger, saboteur, problems, daemon)
    return 1 if problems or saboteur.done["BAD EXIT"] else 0


def descriptors_kept(daemon: DaemonProcess) -> list[str]:
    """Return the problems of the daemon's descriptors, compared before and after load."""
    daemon.stop()
    daemon.start()
    before = count_descriptors(daemon)
    with daemon.client() as client:
        for kind in [*KINDS, *KINDS]:
            client.submit(KINDS[kind][0], wait_s=60)
        with suppress(ClientError):
            client.attempt("no such attempt")
    after = count_descriptors(daemon)
    print(f"descriptors: {before} before load, {after} after")
    return [f"{after - before} descriptors are kept"] if after > before + MORE_DESCRIPTORS else []


def count_descriptors(daemon: DaemonProcess) -> int:
    assert daemon.process is not None
    return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))


def report(ledger: Ledger, saboteur: Saboteur, problems: list[str], daemon: DaemonProcess) -> None:
    print("sabotage: " + ", ".join(f"{name} {count}" for name, count in sorted(saboteur.done.items())))
    print("attempts: " + ", ".join(f"{name} {count}" for name, count in sorted(ledger.done.items())))
    errors = daemon.rows("SELECT error_code, count(*) AS n FROM verdicts WHERE verdict = 'error' GROUP BY 1")
    print("errors: " + (", ".join(f"{row['error_code']} {row['n']}" for row in errors) or "none"))
    again = daemon.rows("SELECT count(*) AS n FROM runs WHERE run_number = 2")[0]["n"]
    print(f"run again: {again}; lost or left: {len(problems)}")
    print("\n".join(f"  {problem}" for problem in problems))


def main() -> int:
    parser = argparse.ArgumentParser(description="Soak the daemon in trouble; see what is lost or left.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--clients", type=int, default=4)
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}, {chosen.minutes} minutes, {chosen.clients} clients", flush=True)
    return soak(chosen.minutes, chosen.seed, chosen.clients)


if __name__ == "__main__":
    sys.exit(main())
