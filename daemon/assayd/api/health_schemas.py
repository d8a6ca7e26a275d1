"""The daemon's health, as the reference describes it."""

from __future__ import annotations

from pydantic import Field

from assayd.api.schemas import Described
from assayd.ports.service import Health


class Check(Described):
    """One check of the daemon's health."""

    check: str = Field(description="What was looked at.")
    status: Health = Field(description="What it came to.")
    detail: str = Field(description="What was seen.")
    remedy: str = Field(description="What to do; empty when nothing is.")


class Examination(Described):
    """The daemon's health."""

    checks: list[Check] = Field(description="The checks.")
    age_ms: int = Field(description="How long ago it was; 0 for operators, who are told anew.")


class Status(Described):
    """That the daemon answers."""

    status: str = Field(description="`ok` or `ready`.")
