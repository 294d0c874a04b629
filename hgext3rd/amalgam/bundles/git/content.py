"""What a bundle has, ready to be read: its header, and the pieces of its pack.

Here for git clients; for those of git-cinnabar in ``cinnabar``. Takes from a git store
what is exported, and exports nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial.node import hex as hex_id

from ...gitstore.state import selection
from ...records import Record
from . import copies, packs
from .packs import PackRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...gitstore.state.oidmap import OidMap
    from ...gitstore.store import GitStore
    from .scope import Part


class BehindError(Exception):
    """What is to be bundled is not exported yet."""


class Content(Record):
    """All that is to be written."""

    changesets: int
    heads: tuple[bytes, ...]
    """As in ``Part``."""
    refs: Mapping[bytes, bytes]
    """Names and their oids."""
    prerequisites: tuple[bytes, ...]
    """Oids of commits that are not in the pack."""
    pack: Iterator[bytes]
    copied_bytes: int = 0
    """Size of the pack that most of it is copied from; 0 if git makes one."""

    def header(self, filter: bytes) -> bytes:
        """Return the lines before the pack, as in gitformat-bundle(5)."""
        lines = [b"# v2 git bundle"]
        if filter:
            lines = [b"# v3 git bundle", b"@object-format=sha1", b"@filter=" + filter]
        lines += [b"-%s " % hex_id(oid) for oid in self.prerequisites]
        lines += [b"%s %s" % (hex_id(oid), name) for name, oid in self.refs.items()]
        return b"\n".join((*lines, b"", b""))


@contextlib.contextmanager
def of_history(
    store: GitStore, export: bytes, part: Part, filter: bytes
) -> Iterator[Content]:
    """Return a bundle of ``part`` for git; ``export`` is what may leave.

    ``BehindError`` unless it is exported.
    """
    docket = store.docket()
    names = [*part.refs]
    with contextlib.closing(store.open_map(docket)) as oidmap:
        oids = _oids(oidmap, [*part.refs.values(), *part.boundary])
    refs = dict(zip(names, oids, strict=False))
    known = tuple(sorted(oids[len(names) :]))
    wanted = PackRequest(tuple(sorted({*refs.values()})), known, filter)
    copy = None
    if not known and not filter:
        may_add = selection.select(store.repo, export) if part.is_all else None
        copy = copies.find(store, docket, part.revs, may_add)
    git = store.repository.git
    copied_bytes = 0
    with contextlib.ExitStack() as stack:
        if copy is None:
            pack = stack.enter_context(packs.packed(git, wanted))
        else:
            name = copy.pack.encode() + b".pack"
            copied_bytes = copy.packs.stat(name).st_size
            sources = [stack.enter_context(packs.copied(copy.packs, copy.pack))]
            if not copy.is_all:
                rest = packs.packed(git, copy.rest(wanted))
                sources.append(copy.followed_by(stack.enter_context(rest)))
            pack = packs.joined(sources)
        yield Content(len(part.revs), part.heads, refs, known, pack, copied_bytes)


def _oids(oidmap: OidMap, nodes: Sequence[bytes]) -> list[bytes]:
    oids = [oid for oid in oidmap.oids(nodes) if oid is not None]
    if len(oids) != len(nodes):
        raise BehindError
    return oids
