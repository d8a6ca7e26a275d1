"""Opens the audit log and records the start and the stop of the daemon."""

from __future__ import annotations

from contextlib import AsyncExitStack

from assayd import __version__
from assayd.audit import FOLDER, AuditLog
from assayd.documents.strict_json import digest
from assayd.errors import ConfigError
from assayd.settings import Settings
from assayd.wiring.basics import Basics


def open_audit(settings: Settings, basics: Basics, stack: AsyncExitStack) -> AuditLog:
    """Open the audit log and close it with the stack. Raises: ConfigError ``state.unusable``."""
    folder = settings.state_dir / FOLDER
    try:
        audit = AuditLog(folder)
    except OSError as problem:
        raise ConfigError("state.unusable", f"can't use {folder}: {problem.strerror}") from problem
    stack.callback(audit.close)
    daemon: dict[str, object] = {"daemon": basics.origin.daemon_id}
    stack.callback(audit.note, "daemon.stopped", actor=daemon, subject=__version__)
    audit.note(
        "daemon.started",
        actor=daemon,
        subject=__version__,
        settings=sorted(settings.origins),  # Only names, because values may be secrets.
        settings_sha256=digest(settings.model_dump_json().encode()),
        policies=basics.policies.digests(),
    )
    return audit
