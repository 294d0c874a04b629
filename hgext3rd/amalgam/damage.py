"""Damage and bugs: which exceptions are due to the files of a repository.

Mercurial trusts most of its files, so damage can raise anything from ``StorageError``
to a ``ValueError`` of an extension module. The code that raised an exception decides.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import error, pycompat
from mercurial.i18n import _

from .terminal import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAID = (error.StorageError, error.RepoError, error.LookupError, FileNotFoundError)
# errors of the system, and errors that only a programmer causes
_OTHERS = (
    OSError,
    MemoryError,
    AttributeError,
    ImportError,
    NameError,
    TypeError,
)
_OF_MERCURIAL = ("mercurial.", "hgext.")


def is_repository_error(exc: BaseException) -> bool:
    """Return whether the content of the repository's files may be the cause of
    ``exc``."""
    return isinstance(exc, _SAID) or _is_unexpected(exc)


def _is_unexpected(exc: BaseException) -> bool:
    """Return whether Mercurial raised ``exc``, which is not meant for users."""
    if not isinstance(exc, Exception) or isinstance(exc, _OTHERS):
        return False
    if type(exc).__module__ == error.__name__:
        return False
    traceback = exc.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = traceback.tb_frame.f_globals.get("__name__", "") if traceback else ""
    return str(module).startswith(_OF_MERCURIAL)


@contextlib.contextmanager
def blamed() -> Iterator[None]:
    """Turn exceptions of Mercurial about a damaged repository into errors for people.

    Every error is safe for a terminal.
    """
    try:
        yield
    except Exception as exc:
        if not _is_unexpected(exc):
            clean(exc)
            raise
        name = type(exc).__name__.encode()
        damage = error.StorageError(
            _(b"cannot read the repository: %s: %s") % (name, pycompat.bytestr(exc)),
            hint=_(b"see 'hg verify'"),
        )
        clean(damage)
        raise damage from exc
