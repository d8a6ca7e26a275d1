"""A child that is forked before it is needed: it confines itself, and then waits for its unit.

The runner forks the child while the runner is idle. No preforked child exists while a unit runs, because
the unit's code could kill the child.
"""

from __future__ import annotations

import os
from itertools import chain

from . import child
from .suppress import suppress
from .value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .cgroup import Counters
    from .programs import UnitProgram


_MOST_WORDS = 64 * 1024
_LAST_WORDS = 500


class Pipes(Value):
    """The runner's ends of a child's pipes. After the child is confined, they are all non-blocking."""

    stdin: int
    stdout: int
    stderr: int
    report: int
    asking: int = -1
    answering: int = -1


class PreforkedChild:
    """A preforked child that waits for its unit, until `assign` or `discard` is called.

    `before` holds the memory counts from before the fork, so that a kill for lack of memory is detected
    even while files are staged.
    """

    def __init__(
        self, confinement: child.Confinement, programs: Mapping[str, UnitProgram], work: int, before: Counters
    ) -> None:
        self.before = before
        paired = any(getattr(program, "PAIRED", False) for program in programs.values())
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(7 if paired else 5)]
        stdin, stdout, stderr, report, order, *two = pipes
        more = {"answering": two[0][1], "asking": two[1][0]} if paired else {}
        self.pipes = Pipes(stdin=stdin[1], stdout=stdout[0], stderr=stderr[0], report=report[0], **more)
        self._ours = (stdin[1], stdout[0], stderr[0], report[0], *more.values())
        for pipe in self._ours:
            os.set_blocking(pipe, pipe == report[0])  # it blocks until the child is confined
        self._order = order[1]
        theirs = child.Descriptors(
            stdin=stdin[0], stdout=stdout[1], stderr=stderr[1], report=report[1], order=order[0], work=work,
            paired=(two[0][0], two[1][1]) if paired else None,
        )  # fmt: skip
        try:
            self.pid = os.fork()
        except OSError:
            for pipe in chain(*pipes):
                os.close(pipe)
            raise
        if self.pid == 0:
            child.become(confinement, programs, theirs)
        theirs_here = (stdin[0], stdout[1], stderr[1], report[1], order[0])
        for pipe in (*theirs_here, *((two[0][0], two[1][1]) if paired else ())):
            os.close(pipe)

    def is_confined(self) -> bool:
        """Wait until the child is confined; return False if it ended early. Must be called first, once."""
        said = os.read(self.pipes.report, len(child.CONFINED))
        os.set_blocking(self.pipes.report, False)
        return said == child.CONFINED

    def read_stderr_tail(self) -> str:
        """Return the end of a dead child's standard error."""
        with suppress(BlockingIOError):
            return os.read(self.pipes.stderr, _MOST_WORDS).decode("utf-8", "replace").strip()[-_LAST_WORDS:]
        return ""

    def assign(self, program: str, arguments: bytes, *, has_input: bool) -> None:
        """Send the unit program and arguments to the child; if the child is dead, do nothing."""
        rest = memoryview(child.encode_request(program, arguments, has_input=has_input))
        with suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(self._order, rest) :]
        os.close(self._order)

    def discard(self) -> None:
        """Close the child's pipes, so that the child exits; the caller must reap the child."""
        for pipe in (*self._ours, self._order):
            os.close(pipe)
