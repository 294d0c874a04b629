"""The record of the last export that changed something."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from mercurial import error

from ... import docketfile
from ...files import Unusable
from ...records import Record

if TYPE_CHECKING:
    from ..store import GitStore

# in .hg/amalgam
_NAME = b"last-export"
_MOST_BYTES = 1 << 10


class LastExport(Record):
    """The last export that changed something, for ``admin::amalgam --metrics``."""

    ended: int
    """In seconds since the epoch."""
    milliseconds: int
    """Wall time of all."""
    changesets: int
    """Changesets converted."""

    @classmethod
    def read(cls, store: GitStore) -> LastExport | None:
        """Return the record; ``None`` if it is missing or cannot be read."""
        try:
            content = store.directory.tryread(_NAME, _MOST_BYTES)
            if not content:
                return None
            return cls(**_FORM.values_in(content))
        except (OSError, Unusable, ValueError):
            return None

    def write(self, store: GitStore) -> None:
        """Record it, if that is possible."""
        content = _FORM.content_of(self)
        # not by a temporary file, which a killed export would leave in .hg/amalgam
        with contextlib.suppress(OSError, error.StorageError):
            store.directory.remove(_NAME)
            with os.fdopen(store.directory.create(_NAME, store.placement), "wb") as out:
                out.write(content)


_FORM = docketfile.Form(
    b"amalgam last export 1",
    {
        "ended": docketfile.numbers(b"ended"),
        "milliseconds": docketfile.numbers(b"milliseconds"),
        "changesets": docketfile.numbers(b"changesets"),
    },
)
