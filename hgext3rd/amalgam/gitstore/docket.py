"""The docket of a git store: the small file that makes packs and map segments count.

``docs/formats/map.rst`` describes ``.hg/amalgam/map/<dialect>.docket``. It is replaced
by rename. A file that it does not name does not count: the next run removes segments
and packs of a killed run. Owns the names of such files, so a docket never names a file
elsewhere.
"""

from __future__ import annotations

import binascii
import functools
import re
from typing import TYPE_CHECKING

from .. import docketfile
from ..docketfile import Field, Group, flags, matching, numbers, texts
from ..files import Unusable
from ..records import Record
from . import checkpoint

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..docketfile import Fields
    from ..files import Directory, Placement
    from .checkpoint import Checkpoint

TITLE = b"amalgam git store 6"
# of names, and of checkpoints
_LONGEST_BYTES = 64 << 20

PACK = re.compile(r"pack-[0-9a-f]{40}")
"""The name of a pack without its suffix."""
# packs of others go, too; their names are only compared with those that are there
_DROPPED = re.compile(r"pack-[^/\0]*")
_SEGMENT = re.compile(r"[a-z]+(?:-metadata)?-[0-9a-f]{16}\.map")
_FILE = re.compile(f"{PACK.pattern}|{_SEGMENT.pattern}")
_OID = re.compile(r"[0-9a-f]{40}")
_PAIR = re.compile(r"[0-9a-f]{40} [0-9a-f]{40}")
_MARK = re.compile(r"[0-9a-f]{32}")


class MetadataCommit(Record):
    """A commit that names all heads, for git-cinnabar; the default is none."""

    oid: str = ""
    """In hex."""
    covered: int = 0
    """How many changesets it is of, 0 if that is not known."""
    packs: tuple[str, ...] = ()
    """Names of the packs that only this commit needs, without suffix."""


class Layer(Record):
    """Some changesets, with their packs and map segments."""

    segments: tuple[str, ...] = ()
    """File names of the map's segments, oldest first."""
    packs: tuple[str, ...] = ()
    """Names of the packs we wrote, without suffix, oldest first."""
    complete: str = ""
    """The pack with exactly the objects that git clients need; empty if none has."""
    metadata_segments: tuple[str, ...] = ()
    """Segments of the metadata's map, for git-cinnabar only."""
    exact: bool = False
    """Whether extras of changesets name commits that git-cinnabar would not make."""
    seen: tuple[Checkpoint, ...] = ()
    """Checkpoints of the selection at the last complete export, ascending; empty after
    an incomplete one."""

    def part(self, names: Collection[str], *, keep: bool) -> Layer:
        """Return the layer of some of its files, or of all others."""
        own = {
            name: tuple(file for file in getattr(self, name) if (file in names) is keep)
            for name in ("segments", "packs", "metadata_segments")
        }
        is_there = (self.complete in names) is keep
        complete = self.complete if is_there else ""
        return Layer(complete=complete, exact=self.exact, **own)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of all segments and packs."""
        return (*self.segments, *self.metadata_segments, *self.packs)

    def with_above(self, above: Layer) -> Layer:
        """Return the layer that this one and the one above it are together."""
        if not above.segments:
            return self
        return Layer(
            segments=self.segments + above.segments,
            packs=self.packs + above.packs,
            complete=self.complete or above.complete,
            metadata_segments=self.metadata_segments + above.metadata_segments,
            exact=self.exact or above.exact,
        )


class Docket(Record):
    """State of one dialect; by default nothing is exported."""

    base: Layer = Layer()
    """Public changesets. Needs nothing of the other layer."""
    drafts: Layer = Layer()
    """All others, on top of the base."""
    recent: tuple[str, ...] = ()
    """Segments and packs of ``drafts`` that only the newest drafts need."""
    base_commit: MetadataCommit = MetadataCommit()
    """The last metadata commit that was made of changesets of the base alone."""
    drafts_commit: MetadataCommit = MetadataCommit()
    """The last one that was made of changesets of both layers; it goes with drafts."""
    base_tags: tuple[str, ...] = ()
    """Packs with tag objects of remotes, whose changesets are in the base."""
    drafts_tags: tuple[str, ...] = ()
    """Those for changesets in either layer; they go with drafts."""
    held: tuple[tuple[bytes, bytes], ...] = ()
    """Public changesets that are with the drafts, with the draft that is the reason:
    it comes earlier, and would have the same commit."""
    published: tuple[bytes, ...] = ()
    """Public changesets that are with the drafts, since they were drafts. So are all
    that descend from them."""
    refused: bool = False
    """Whether nothing may be answered from the store until an export ends, which first
    removes the dropped packs."""
    dropped: tuple[str, ...] = ()
    """Names of packs that go as soon as no ref needs them."""
    named: str = ""
    """``Repository.names_digest`` after the export.

    Empty if that is not known, or if refs are missing since their changesets were not
    exported.
    """
    censored: str = ""
    """``censorship.mark_of`` when the texts were read."""
    adopted: str = ""
    """``AdoptedFile.mark`` of the commits that its ids begin with, or empty."""
    imported: tuple[str, ...] = ()
    """File names of the segments with imported commits, which its ids agree with."""
    summaries: str = ""
    """``summaries.digest`` when git found nothing wrong with them."""

    @property
    def is_exact(self) -> bool:
        """Whether extras of changesets name commits."""
        return self.base.exact or self.drafts.exact

    @property
    def has_foreign_ids(self) -> bool:
        """Whether git-cinnabar would make other commits of some changesets."""
        return bool(self.adopted) or self.is_exact

    @property
    def layers(self) -> tuple[Layer, Layer, Layer]:
        """The base, the older and the recent drafts: each needs those before it."""
        older, recent = (
            self.drafts.part(self.recent, keep=is_recent) for is_recent in (False, True)
        )
        return self.base, older, recent

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments of both layers, the base first."""
        return self.base.segments + self.drafts.segments

    @property
    def packs(self) -> tuple[str, ...]:
        """All packs: of the base, of the drafts, of metadata commits, of tags."""
        others = self.base_commit.packs + self.drafts_commit.packs + self.tag_packs
        return tuple(dict.fromkeys(self.base.packs + self.drafts.packs + others))

    @property
    def tag_packs(self) -> tuple[str, ...]:
        """The packs with tag objects."""
        return self.base_tags + self.drafts_tags

    @property
    def metadata_segments(self) -> tuple[str, ...]:
        """The segments of the metadata's map, of both layers."""
        return self.base.metadata_segments + self.drafts.metadata_segments

    @property
    def metadata_commit(self) -> MetadataCommit:
        """The one of the most changesets, which a ref names."""
        commits = (self.drafts_commit, self.base_commit)
        return max(commits, key=lambda commit: (bool(commit.oid), commit.covered))

    @property
    def map_files(self) -> tuple[str, ...]:
        """File names of everything in the map's directory but the docket itself."""
        return (*self.segments, *self.metadata_segments)

    @classmethod
    def read(cls, directory: Directory, dialect: bytes) -> Docket:
        """Read the docket; one that is missing, or not ours to read, is empty.

        All is derived data, so the worst that a lost docket costs is another export.
        """
        try:
            content = directory.tryread(_name(dialect), _LONGEST_BYTES)
            return _parsed(content) if content else cls()
        except (Unusable, ValueError):
            return cls()

    @classmethod
    def parse(cls, content: bytes) -> Docket:
        """Parse ``content`` as ``format`` writes it; ``ValueError`` for other forms."""
        lines = docketfile.parsed(content, TITLE)
        docket = cls(**docketfile.values_of(lines, _DOCKET))
        if not frozenset(docket.drafts.files).issuperset(docket.recent):
            raise ValueError("recent files are none of the drafts")
        for layer in (docket.base, docket.drafts):
            if layer.complete not in ("", *layer.packs):
                raise ValueError("the complete pack is none of the packs")
        return docket

    def format(self) -> bytes:
        """Return the content of the file."""
        return docketfile.formatted(TITLE, docketfile.lines_of(self, _DOCKET))

    def write(self, directory: Directory, dialect: bytes, placement: Placement) -> None:
        """Make this the state. Durable when it returns."""
        directory.replace(_name(dialect), self.format(), placement)


@functools.lru_cache(maxsize=64)
def _parsed(content: bytes) -> Docket:
    """Parse content that a server reads again and again."""
    return Docket.parse(content)


def _name(dialect: bytes) -> bytes:
    return dialect + b".docket"


def _node(value: bytes) -> bytes:
    return bytes.fromhex(matching(_OID)(value))


def _pair(value: bytes) -> tuple[bytes, bytes]:
    public, draft = map(bytes.fromhex, matching(_PAIR)(value).split(" "))
    return public, draft


def _pair_text(nodes: tuple[bytes, bytes]) -> bytes:
    return b" ".join(map(binascii.hexlify, nodes))


_COMMIT: Fields = {
    "oid": texts(b"commit", _OID, ""),
    "covered": numbers(b"covered", 0),
    "packs": texts(b"pack", PACK, many=True),
}
_LAYER: Fields = {
    "segments": texts(b"segment", _SEGMENT, many=True),
    "packs": texts(b"pack", PACK, many=True),
    "complete": texts(b"complete", PACK, ""),
    "metadata_segments": texts(b"metadata-segment", _SEGMENT, many=True),
    "exact": flags(b"exact"),
    "seen": checkpoint.field(many=True),
}
_DOCKET: Fields = {
    "held": Field(b"held", _pair, _pair_text, many=True),
    "published": Field(b"published", _node, binascii.hexlify, many=True),
    "refused": flags(b"refused"),
    "dropped": texts(b"dropped", _DROPPED, many=True),
    "named": texts(b"named", _OID, ""),
    "censored": texts(b"censored", _MARK, ""),
    "adopted": texts(b"adopted", _OID, ""),
    "imported": texts(b"imported", _SEGMENT, many=True),
    "summaries": texts(b"summaries", _OID, ""),
    "base": Group(b"base-", Layer, _LAYER),
    "drafts": Group(b"drafts-", Layer, _LAYER),
    "recent": texts(b"drafts-recent", _FILE, many=True),
    "base_tags": texts(b"base-tags", PACK, many=True),
    "drafts_tags": texts(b"drafts-tags", PACK, many=True),
    "base_commit": Group(b"base-metadata-", MetadataCommit, _COMMIT),
    "drafts_commit": Group(b"drafts-metadata-", MetadataCommit, _COMMIT),
}
