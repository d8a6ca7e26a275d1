from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd.sandbox.channel import RunnerChannel
from support.guests.scripted_runner import Reply, ScriptedDuplex


@pytest.fixture
def scripted() -> Callable[[Reply], RunnerChannel]:
    return lambda reply: RunnerChannel(ScriptedDuplex(reply))
