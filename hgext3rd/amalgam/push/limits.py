"""Limits of a push: what is refused since it is too much, and what to do about it.

git bounds the bytes itself. Objects are counted when they have arrived, commits and
files when they are converted. All that is before anything is written to Mercurial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import util
from mercurial.i18n import _

from ..records import Record
from .conversion import ConversionBounds
from .reasons import FILE_SIZE
from .refs.refcommands import PushRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..gitstore.git.gitprocess import Git
    from .conversion import Refusal

_MOST_NAMED = 5
"""Commits that are named if they cannot be pushed."""
_SHORT = 12
_STORED_BYTES = 2 << 30
"""What Mercurial itself stores of a file at most."""


class PushLimits(Record):
    """How much a push may have."""

    objects: int
    """Objects that it sends, with those that git adds to complete deltas."""
    commits: int
    """New commits."""
    file_bytes: int
    """Bytes of a file in a new commit."""

    @property
    def bounds(self) -> ConversionBounds:
        """What of it the conversion looks at."""
        return ConversionBounds(self.commits, self.file_bytes)

    def check_objects(self, git: Git) -> None:
        """Refuse too many objects; ``git`` is for the repository that has them."""
        lines = git.run("count-objects", "-v").stdout.splitlines()
        counts = dict(line.split(b": ", 1) for line in lines if b": " in line)
        if int(counts[b"count"]) + int(counts[b"in-pack"]) > self.objects:
            raise PushRefusedError(
                _(
                    b"the push has more than %d objects; push older commits first: "
                    b"git push origin COMMIT:BRANCH"
                )
                % self.objects
            )

    def explained(
        self, refused: Sequence[Refusal]
    ) -> tuple[list[bytes], PushRefusedError]:
        """Return lines about commits that are refused, and the refusal of a ref."""
        lines = []
        for it in refused[:_MOST_NAMED]:
            detail = b": %s" % it.detail if it.detail else b""
            line = _(b"commit %s: %s%s") % (it.oid[:_SHORT], self._text(it), detail)
            lines.append(line)
        first = refused[0]
        if first.reason == FILE_SIZE:
            lines.append(
                _(
                    b"take the file out of that commit, or ask the operator for a "
                    b"larger amalgam.serve.max-push-file"
                )
            )
        short, text = first.oid[:_SHORT], self._text(first)
        if len(refused) == 1:
            refusal = PushRefusedError(
                _(b"commit %s cannot be pushed: %s") % (short, text)
            )
        else:
            refusal = PushRefusedError(
                _(b"%d commits cannot be pushed; the first is %s: %s")
                % (len(refused), short, text)
            )
        return lines, refusal

    def _text(self, refusal: Refusal) -> bytes:
        """Return what a commit has that is refused."""
        if refusal.reason != FILE_SIZE:
            return refusal.reason.text
        most = util.bytecount(min(self.file_bytes, _STORED_BYTES))
        return _(b"a file is larger than %s") % most
