"""Mercurial's exceptions for the statuses of the native core.

The only reader of ``amalgam_error``. The core writes messages in Mercurial's style,
lower case and without a full stop. They are not translated.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ._core import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable


class Unsupported(error.StorageError):
    """The core does not handle this kind of data. Uncaught, hg aborts."""


class Moved(error.StateError):
    """The repository has changed since the request was made."""


def call(func: Callable[..., int], *args: Any) -> None:
    """Run ``func(*args, error)`` and raise the exception of its status."""
    problem = ffi.new("amalgam_error *")
    check(func(*args, problem), problem)


def check(status: int, problem: Any) -> None:
    """Raise the exception of ``status``, with the texts of ``problem``."""
    if status == lib.AMALGAM_STATUS_OK:
        return
    path = bytes(ffi.buffer(problem.path, problem.path_len))
    message = bytes(ffi.buffer(problem.message, problem.message_len))
    hint = bytes(ffi.buffer(problem.hint, problem.hint_len)) or None
    if status == lib.AMALGAM_STATUS_IO:
        number = problem.os_error or errno.EIO
        reason = os.strerror(number) if problem.os_error else message.decode()
        raise OSError(number, reason, path or None)
    if path:
        message = b"%s: %s" % (path, message)
    if status == lib.AMALGAM_STATUS_BUG:
        raise error.ProgrammingError(message, hint=hint or _BUG_HINT)
    raise _CLASSES[status](message, hint=hint)


_CLASSES = {
    lib.AMALGAM_STATUS_INPUT: error.InputError,
    lib.AMALGAM_STATUS_CORRUPT: error.StorageError,
    lib.AMALGAM_STATUS_UNSUPPORTED: Unsupported,
    lib.AMALGAM_STATUS_CANCELLED: error.CanceledError,
    lib.AMALGAM_STATUS_MOVED: Moved,
}

_BUG_HINT = _(b"this is a bug in amalgam; please report it with the text above")
