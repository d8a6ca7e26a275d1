"""The runtime policy of a child: the guarded importer and the audit hook, as one thing to install.

Feedback and audit trail, not isolation: its events can fail a submission, never pass one.
"""

from __future__ import annotations

import _frozen_importlib
import builtins
import sys

from . import private
from .attributes import AttributeGuard
from .builtins_safe import guest_builtins, opaque
from .field_names import check_field_names
from .frames_above import FrameClassifier
from .hook import AuditHook, HookRules
from .importer import ImportGuard
from .leaving import refuse_to_leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .reporter import Reporter
    from .requests import BeginFrame

private.isolate(globals())


class RuntimePolicy:
    """The permissions of guest code in this process, as far as Python can enforce them."""

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
        guarded = self.attributes.functions()
        self._builtins = {
            kind: guest_builtins(kind, self._imports.guarded, guarded) for kind in ("safe", "full")
        }

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the folders that contain libraries."""
        return self._places.libraries

    def install(self) -> None:
        """Put the audit hook in place; it cannot be removed."""
        sys.addaudithook(self._hook)

    def builtins(self, kind: str, submitted: str) -> dict[str, object]:
        """Return the built-in names for a submitted file, with the guarded importer.

        They were put together before the fork: doing that here would write to every page that holds one.

        Args:
            kind: ``safe`` or ``full``.
            submitted: the file name that the text is compiled under; events give its lines.
        """
        self._places.submitted[submitted] = submitted
        if kind == "safe":
            self._install_field_checks()
        return self._builtins[kind]

    def _install_field_checks(self) -> None:
        places, reporter = self._places, self._reporter
        if not check_field_names(places, reporter):
            self._imports.call_until_true(lambda: check_field_names(places, reporter))

    def refuse_to_leave(self) -> None:
        """Refuse ``os._exit`` to this process, so that what its program has to say is said."""
        refuse_to_leave(self._places, self._reporter)

    def guest_begins(self) -> None:
        """Note that submitted code runs from here on; what happened by then was not its doing."""
        self._imports.guest_begins()

    def share_builtins(self, submitted: Mapping[str, str]) -> dict[str, object]:
        """Return the interpreter's own built-in names, after adding the guarded importer.

        For programs in which guest code and a library have to see the same ones, e.g. when a test puts
        another ``open`` in its place.

        Args:
            submitted: the file names that texts are compiled under, with the names to show.
        """
        self._places.submitted.update(submitted)
        self._imports.share()
        vars(builtins)["__import__"] = opaque(self._imports.shared)
        vars(_frozen_importlib)["_gcd_import"] = opaque(self._imports.by_name)
        return vars(builtins)
