"""Translates database and file-system failures into StoreErrors whose codes indicate the remedy."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from assayd.errors import StoreError
from assayd.store.server import is_unreachable

_DISK_FULL_ERRS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EEXIST, errno.ELOOP}

# SQLite's primary result codes, https://sqlite.org/rescode.html
_CODE_BY_SQLITE_ERROR = {
    sqlite3.SQLITE_FULL: "store.full",
    sqlite3.SQLITE_READONLY: "store.unwritable",
    sqlite3.SQLITE_CANTOPEN: "store.unwritable",
    sqlite3.SQLITE_PERM: "store.unwritable",
    sqlite3.SQLITE_AUTH: "store.unwritable",
    sqlite3.SQLITE_IOERR: "store.failed",
    sqlite3.SQLITE_BUSY: "store.busy",
    sqlite3.SQLITE_LOCKED: "store.busy",
    sqlite3.SQLITE_CORRUPT: "store.corrupt",
    sqlite3.SQLITE_NOTADB: "store.corrupt",
}
# PostgreSQL's error codes, or the class of a code,
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_CODE_BY_SQLSTATE = {
    "08": "store.unreachable",
    "28": "store.unwritable",
    "40": "store.busy",
    "42501": "store.unwritable",
    "53100": "store.full",
    "53300": "store.busy",
    "55P03": "store.busy",
    "57014": "store.busy",
    "57P": "store.unreachable",
}
_REMEDY_BY_CODE = {
    "store.full": "free space on the file system of the state directory",
    "store.unwritable": "check owner, mode and mount options of the state directory",
    "store.busy": "another process holds the database; only one daemon may use a state directory",
    "store.unreachable": "check that the database server runs and is reachable from here",
    "store.corrupt": "restore it from a backup, or move it elsewhere to start with an empty one",
    "store.failed": "check the system log for disk errors",
    "store.conflict": "this was recorded before",
}
_SERVER_REMEDY = {
    "store.full": "free space on the database server's file system",
    "store.unwritable": (
        "check the rights of its account; only the account that owns the tables can create them"
    ),
    "store.busy": "the database server has reached its limits; check its log and sessions",
    "store.failed": "check the database server's log",
}
_RETRYABLE_CODES = {"store.full", "store.busy", "store.failed", "store.unreachable"}


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Translate database and file-system errors in the body of a `with` statement into a StoreError.

    Args:
        what: the name of the operation in the message, e.g. ``writing the database``.
    """
    try:
        yield
    except OSError as problem:
        raise _build_store_error(_get_os_code(problem), what, problem.strerror or str(problem)) from problem
    except (SQLAlchemyError, sqlite3.Error) as problem:
        raise to_store_error(problem, what) from problem


def to_store_error(problem: SQLAlchemyError | sqlite3.Error, what: str) -> StoreError:
    """Return the StoreError that corresponds to an exception of SQLAlchemy or SQLite."""
    origin = problem.orig if isinstance(problem, DBAPIError) else problem
    if isinstance(problem, IntegrityError):
        return _build_store_error("store.conflict", what, str(origin))
    number = getattr(origin, "sqlite_errorcode", None)
    if isinstance(number, int):
        return _build_store_error(_CODE_BY_SQLITE_ERROR.get(number & 0xFF, "store.failed"), what, str(origin))
    if isinstance(origin, sqlite3.Error):
        return _build_store_error("store.failed", what, str(origin))
    return _build_store_error(_get_database_code(problem), what, str(origin), _SERVER_REMEDY)


def _get_database_code(problem: SQLAlchemyError | sqlite3.Error) -> str:
    if is_unreachable(problem):
        return "store.unreachable"
    state = str(getattr(getattr(problem, "orig", None), "sqlstate", None))
    return next(
        (code for begin, code in _CODE_BY_SQLSTATE.items() if state.startswith(begin)), "store.failed"
    )


def build_unusable_database_error(path: Path, code: str, message: str) -> StoreError:
    """Return the StoreError for a database that must not be used in its current state."""
    return StoreError(code, f"{path}: {message}; {_REMEDY_BY_CODE[code]}")


def _get_os_code(problem: OSError) -> str:
    if problem.errno in _DISK_FULL_ERRS:
        return "store.full"
    return "store.unwritable" if problem.errno in _UNWRITABLE else "store.failed"


def _build_store_error(
    code: str, what: str, detail: str, remedies: Mapping[str, str] | None = None
) -> StoreError:
    message = f"{what} failed: {detail}; {(remedies or {}).get(code, _REMEDY_BY_CODE[code])}"
    return StoreError(code, message, retryable=code in _RETRYABLE_CODES)
