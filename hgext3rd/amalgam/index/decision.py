"""The decision for one index, memory-mapped or read, and its reason.

Owns the order and the texts of the reasons. Opens no file: the caller passes the file's
properties and the result of ``mapping``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import util
from mercurial.i18n import _

from ..records import Choice, Record

if TYPE_CHECKING:
    from collections.abc import Callable


class Reason(Choice):
    """Why an index is mapped (the first), or read (the others). Values are for JSON."""

    LARGE_ENOUGH = "large-enough"
    MISSING = "missing"
    EMPTY = "empty"
    INLINE = "inline"
    SWITCHED_OFF = "switched-off"
    BELOW_THRESHOLD = "below-threshold"
    UNSAFE_FILE_SYSTEM = "unsafe-file-system"
    PENDING = "pending"
    TRANSACTION = "transaction"
    BUSY = "busy"
    CHANGING = "changing"
    NO_SNAPSHOT = "no-snapshot"
    UNTRUSTED = "untrusted"


class Decision(Record):
    """Decision for an index of a repository object, made when it was opened."""

    name: bytes
    """Name in hg: ``00changelog``, ``00manifest``, ``meta/lib/00manifest``."""
    path: bytes
    """Full path of the file, which in a transaction may be a temporary one."""
    size_bytes: int
    """Size of the file then; 0 if there was none."""
    reason: Reason
    """Why it is mapped or read."""
    threshold_bytes: int | None
    """The size from which on indexes are mapped; ``None`` if they never are."""
    item: bytes
    """The config item that decided: of the threshold, or one that switches mapping
    off."""
    detail: bytes = b""
    """Reason for no snapshot, mostly from the operating system; or the untrusted
    user."""

    @property
    def mapped(self) -> bool:
        """Whether the index is mapped; else its whole content was read."""
        return self.reason is Reason.LARGE_ENOUGH

    def explain(self) -> bytes:
        """Return the decision and its reason as a phrase for people."""
        if self.reason is Reason.MISSING:
            return _(b"not there yet")
        if self.reason is Reason.EMPTY:
            return _(b"read: it is empty")
        if self.reason is Reason.INLINE:
            return _(b"read: it is inline, with revisions among its entries")
        if self.reason is Reason.SWITCHED_OFF:
            return _(b"read: %s switches mapping off") % self.item
        if self.reason is Reason.UNSAFE_FILE_SYSTEM:
            return _(b"read: mapping is not safe on its file system")
        if self.reason is Reason.PENDING:
            return _(b"read: it is the copy that a running transaction shows")
        if self.reason is Reason.TRANSACTION:
            return _(b"read: it changed, and a transaction is running or interrupted")
        if self.reason is Reason.BUSY:
            return _(b"read: another process is writing snapshots")
        if self.reason is Reason.CHANGING:
            return _(b"read: it changed while it was being opened")
        if self.reason is Reason.NO_SNAPSHOT:
            return _(b"read: no snapshot can be made of it: %s") % self.detail
        if self.reason is Reason.UNTRUSTED:
            told = _(b"read: user '%s', who owns '.hg', is not trusted (see '%s')")
            return told % (self.detail, b"hg help config.trusted")
        size = util.bytecount(self.size_bytes)
        threshold = util.bytecount(self.threshold_bytes)
        if self.reason is Reason.BELOW_THRESHOLD:
            return _(b"read: %s, less than %s (%s)") % (size, threshold, self.item)
        return _(b"mapped: %s, at least %s (%s)") % (size, threshold, self.item)


def reason_for(
    threshold_bytes: int | None,
    size_bytes: int | None,
    inline: bool,
    pending: bool,
    is_mmap_safe: Callable[[], bool],
) -> Reason:
    """Decide for a file of ``size_bytes``, ``None`` if it is missing.

    A ``pending`` file has another name than the index, which it may replace.

    Of several reasons to read, the one that users can do least about is given. The file
    system is examined last.
    """
    if size_bytes is None:
        return Reason.MISSING
    if not size_bytes:
        return Reason.EMPTY
    if inline:
        return Reason.INLINE
    if threshold_bytes is None:
        return Reason.SWITCHED_OFF
    if size_bytes < threshold_bytes:
        return Reason.BELOW_THRESHOLD
    if pending:
        return Reason.PENDING
    return Reason.LARGE_ENOUGH if is_mmap_safe() else Reason.UNSAFE_FILE_SYSTEM
