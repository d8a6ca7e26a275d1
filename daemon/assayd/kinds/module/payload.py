"""The payload of a module, and the facts read from it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from assayd.kinds.module.expected_tests import ExpectedTests
from assayd.kinds.module.mutants import Mutant


class ModulePayload(BaseModel):
    """An adapter with its manifest and tests."""

    model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="none")

    manifest: dict[str, object] = Field(description="The manifest of the adapter.")
    files: dict[str, str] = Field(min_length=1, description="The adapter and its tests, by file name.")


class PreparedModule(ModulePayload):
    """A parsed module. `expected` contains the tests of each file.

    `methods` lists the methods of the adapter's classes with their first and last lines. `mutants` lists
    the changes that the tests should detect.
    """

    expected: dict[str, ExpectedTests]
    methods: dict[str, list[list[int]]] = Field(default_factory=dict)
    mutants: list[Mutant] = Field(default_factory=list)
