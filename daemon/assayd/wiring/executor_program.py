"""The parent of executors: a process that has imported everything and forks an executor on request.

Executors therefore share the memory of the modules. A separate program, because the types of messages must
be those of `wiring.execution` in both processes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from functools import partial

import uvloop

from assayd.analysis.forking import fork_on_request
from assayd.executors.worker import BuildParts, ExecutorWorker
from assayd.kinds import registry
from assayd.program import configure_allocator
from assayd.wiring.execution import build_executor_parts

SWITCH_S = 0.0005
"""The seconds after which a thread must release the interpreter if other threads wait for it, as in the
daemon.
"""


def run_executor(build: BuildParts) -> None:
    """Serve the daemon, whose socket is standard input, until it stops this process."""
    stream = socket.socket(fileno=os.dup(0))
    stream.setblocking(False)
    # Programs that this process starts must not inherit the socket.
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    os.dup2(2, 1)
    sys.setswitchinterval(SWITCH_S)
    configure_allocator()
    gc.set_threshold(10_000, 10, 10)

    async def serve() -> None:
        await ExecutorWorker(build).serve(stream)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


def main(build: BuildParts = build_executor_parts) -> None:
    """Import everything once, and fork executors on requests that arrive over standard input."""
    # A terminal and a service manager also signal the daemon, which then stops its executors.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    registry.load_validators(sys.argv[1:])
    gc.collect()
    gc.freeze()
    fork_on_request(control, partial(run_executor, build))


if __name__ == "__main__":
    main()
