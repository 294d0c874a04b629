"""Refusals: why a git client gets no answer, as an HTTP status and a sentence.

git prints the sentence after ``remote:`` if it is the body of an answer to
``info/refs``, and of type text/plain.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from mercurial.i18n import _
from mercurial.utils import stringutil

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_SECONDS = 10
"""Seconds after which a client may retry a request that was too early."""


class HttpError(Exception):
    """The answer to a request that is not served, or that asks for methods."""

    def __init__(
        self,
        code: int,
        sentence: bytes,
        *,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        logged: bytes = b"",
    ) -> None:
        """``sentence`` is for the client, in UTF-8; ``logged`` is for the operator."""
        super().__init__(code, sentence)
        self.code = code
        self.sentence = sentence
        self.headers = headers
        self.logged = logged or sentence

    @classmethod
    def later(cls, sentence: bytes, *, logged: bytes = b"") -> HttpError:
        """Refuse for now: 503, and when to try again."""
        after = (b"Retry-After", b"%d" % BUSY_SECONDS)
        return cls(503, sentence, headers=(after,), logged=logged)


def unavailable(logged: bytes) -> HttpError:
    """Return the error for a problem that only the operator can solve."""
    return HttpError(
        503,
        b"this server cannot serve git; its operator finds why in the log",
        logged=logged,
    )


def unavailable_since(exc: BaseException) -> HttpError:
    """Return the same for an error; the operator finds it in the log, with its hint."""
    hint = getattr(exc, "hint", None)
    text = getattr(exc, "message", None) or stringutil.forcebytestr(exc)
    if isinstance(exc, OSError) and exc.filename:
        reason = os.fsencode(exc.strerror or "")
        text = b"%s: '%s'" % (reason, os.fsencode(exc.filename))
    return unavailable(b"%s (%s)" % (text, hint) if hint else text)


@contextlib.contextmanager
def temporary_file_in_use() -> Iterator[None]:
    """Refuse for now if a temporary file cannot be made, or written."""
    try:
        yield
    except OSError as exc:
        # without the name of the file, which is another one each time
        problem = stringutil.forcebytestr(exc.strerror or exc)
        raise HttpError.later(
            b"this server has no room for the request; try again later",
            logged=_(b"cannot write temporary files (TMPDIR): %s") % problem,
        ) from None
