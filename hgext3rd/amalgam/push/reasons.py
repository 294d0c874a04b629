"""Why a git commit cannot be pushed: the names and texts of the core's reasons.

The core decides (``rust/git2hg``). docs/survey.rst says what to do about each.
"""

from __future__ import annotations

from mercurial.i18n import _

from ..records import Record


class PushReason(Record):
    """One reason."""

    name: bytes
    """What programs and the documentation call it."""
    text: bytes
    """What a commit has, for people."""


FILE_SIZE = PushReason(b"file-size", _(b"a file is too large"))
ANCESTOR = PushReason(b"ancestor", _(b"an ancestor cannot be pushed"))
#: By the numbers of the core, in the order in which they are looked for.
REASONS = {
    1: PushReason(b"malformed-commit", _(b"the commit object is malformed")),
    2: PushReason(b"signature", _(b"the commit is signed")),
    3: PushReason(b"encoding", _(b"the message has an encoding header")),
    4: PushReason(b"header", _(b"the commit has another header that would be lost")),
    5: PushReason(b"octopus", _(b"the commit has more than two parents")),
    6: PushReason(b"date", _(b"the date cannot be written back as it is")),
    7: PushReason(
        b"identity", _(b"the name or address cannot be written back as it is")
    ),
    8: PushReason(b"backslash", _(b"the committer contains a backslash")),
    9: PushReason(b"submodule", _(b"the tree has a submodule")),
    10: PushReason(b"mode", _(b"a file has a mode that Mercurial cannot store")),
    11: PushReason(b"empty-directory", _(b"the tree has an empty directory")),
    12: PushReason(b"malformed-tree", _(b"git itself refuses the tree")),
    13: PushReason(b"path", _(b"Mercurial refuses a path")),
    14: ANCESTOR,
    15: FILE_SIZE,
    16: PushReason(b"differs", _(b"its changeset is not exported as the same commit")),
    17: PushReason(b"commit-size", _(b"the commit object is larger than 4 MB")),
}
