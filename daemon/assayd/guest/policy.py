"""The runtime policy of a child, which installs the guarded importer and the audit hook together.

The policy provides feedback and an audit trail, not isolation: its events can make a submission fail, but
never make it pass.
"""

from __future__ import annotations

import _frozen_importlib
import builtins
import sys

from . import private
from .attributes import AttributeGuard
from .builtins_safe import guest_builtins, make_opaque
from .field_names import check_field_names
from .frames_above import FrameClassifier
from .hook import AuditHook, HookRules
from .importer import ImportGuard
from .leaving import block_os_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .reporter import Reporter
    from .requests import BeginFrame

private.isolate_builtins(globals())


class RuntimePolicy:
    """The permissions of guest code in this process, enforced as far as Python allows."""

    def __init__(self, attempt: BeginFrame, work_path: str, reporter: Reporter) -> None:
        self._places = FrameClassifier(work_path)
        self._reporter = reporter
        self._imports = ImportGuard(attempt.imports, self._places, reporter)
        rules = HookRules(
            enforce=attempt.imports.enforce,
            allow_exec=attempt.allow_exec,
            allow_fork=attempt.limits.max_processes > 1,
            allow_inet=attempt.allow_inet,
            allow_native=self._imports.allows("ctypes"),
        )
        self._hook = AuditHook(rules, self._places, reporter)
        self.attributes = AttributeGuard()
        guarded = self.attributes.guarded_functions()
        self._builtins = {
            kind: guest_builtins(kind, self._imports.import_guarded, guarded) for kind in ("safe", "full")
        }

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the folders of libraries."""
        return self._places.libraries

    def install(self) -> None:
        """Install the audit hook, which can't be removed."""
        sys.addaudithook(self._hook)

    def builtins(self, kind: str, submitted: str) -> dict[str, object]:
        """Return the built-in names for a submitted file, with the guarded importer.

        The names were collected before the fork; collecting them in the child would write to every memory
        page that contains a name.

        Args:
            kind: ``safe`` or ``full``.
            submitted: the file name under which the text is compiled; events refer to its lines.
        """
        self._places.submitted[submitted] = submitted
        if kind == "safe":
            self._install_field_checks()
        return self._builtins[kind]

    def _install_field_checks(self) -> None:
        places, reporter = self._places, self._reporter
        if not check_field_names(places, reporter):
            self._imports.call_until_true(lambda: check_field_names(places, reporter))

    def block_os_exit(self) -> None:
        """Refuse calls of ``os._exit`` in this process, so that the program always sends its record."""
        block_os_exit(self._places, self._reporter)

    def start_attributing(self) -> None:
        """Record that submitted code now begins to run; earlier operations aren't attributed to it."""
        self._imports.start_judging_names()

    def share_builtins(self, submitted: Mapping[str, str]) -> dict[str, object]:
        """Add the guarded importer to the interpreter's built-in names, and return these names.

        Programs use this if guest code and a library must share the same built-in names, e.g. because a
        test replaces ``open``.

        Args:
            submitted: the file names under which texts are compiled, each with the name to display.
        """
        self._places.submitted.update(submitted)
        self._imports.share()
        vars(builtins)["__import__"] = make_opaque(self._imports.import_shared)
        vars(_frozen_importlib)["_gcd_import"] = make_opaque(self._imports.import_by_name)
        return vars(builtins)
