"""Failures of background work, shown by ``admin::amalgam``.

Owns the form of such a file, a docket with the title ``amalgam exporter failure 1``. It
exists from a failure to the next success of the same work.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.utils import stringutil

from .. import docketfile
from ..files import Unusable
from ..records import Record
from ..terminal import printable

if TYPE_CHECKING:
    from ..files import Directory, Placement

_FILE_BYTES = 1 << 14
_LONGEST_REASON = 2000


class Failure(Record):
    """Why some work failed the last time."""

    reason: str
    attempts: int
    """How many attempts failed in a row."""
    retry: int = 0
    """When the next one begins, in seconds since the epoch; 0 if that is not known."""

    @classmethod
    def read(cls, directory: Directory, name: bytes) -> Failure | None:
        """Return the last failure; ``None`` if the work has succeeded since."""
        try:
            content = directory.tryread(name, _FILE_BYTES)
            if not content:
                return None
            return cls(**_FORM.values_in(content))
        except (OSError, Unusable, ValueError):
            return None

    def write(self, directory: Directory, name: bytes, placement: Placement) -> None:
        """Keep it, if that is possible."""
        content = _FORM.content_of(self)
        with contextlib.suppress(OSError, error.StorageError):
            directory.replace(name, content, placement, durable=False)

    def explain(self, work: bytes) -> bytes:
        """Return the number of failures of ``work`` and the last reason, for people."""
        reason = printable(os.fsencode(self.reason))
        if self.attempts < 2:
            return b"%s: %s" % (work, reason)
        return b"%s %d times: %s" % (work, self.attempts, reason)


def forget(directory: Directory, name: bytes) -> None:
    """Know that the work has succeeded."""
    with contextlib.suppress(OSError, error.StorageError):
        directory.remove(name)


def reason_of(exc: BaseException) -> bytes:
    """Return the message of an exception, with its hint."""
    hint = getattr(exc, "hint", None)
    text = stringutil.forcebytestr(exc) or type(exc).__name__.encode()
    return b"%s (%s)" % (text, hint) if hint else text


def short(reason: bytes) -> str:
    """Return a reason as a failure may have it."""
    return os.fsdecode(reason[:_LONGEST_REASON])


_FORM = docketfile.Form(
    b"amalgam exporter failure 1",
    {
        "reason": docketfile.texts(b"reason", re.compile("(?s).*")),
        "attempts": docketfile.numbers(b"attempts"),
        "retry": docketfile.numbers(b"retry", 0),
    },
)
