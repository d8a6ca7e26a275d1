"""`exec`: replace the unit's process with a program of the image.

Arguments: argv, env. The report pipe is closed when the program starts, so that neither the program nor its
children can write a record. Therefore, a record means that the program never started; otherwise, the wait
status is the only result.
"""

from __future__ import annotations

import errno
import os

from . import get_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..reporter import Record
    from . import Context

IN_PYTHON = False


def run(arguments: Mapping[str, object], context: Context) -> Record:
    """Replace this process with the program. Return an error record if this fails."""
    argv: list[str] = get_argument(arguments, "argv", list)
    added: dict[str, str] = get_argument(arguments, "env", dict)
    try:
        os.execvpe(argv[0], argv, {**context.environment, **added})  # noqa: S606 - that is what it is for
    except OSError as problem:
        return _build_not_executed_record(problem.errno or errno.EINVAL)
    except ValueError:
        return _build_not_executed_record(errno.EINVAL)


def _build_not_executed_record(number: int) -> Record:
    error = errno.errorcode.get(number, str(number))
    return {"status": "not_executed", "error": error, "message": os.strerror(number)}
