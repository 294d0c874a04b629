"""What is exported: the small file that makes packs and map segments count.

``.hg/amalgam/map/<dialect>.docket`` is JSON and replaced by rename. Whatever it does
not name is not there: a segment or a pack of a run that was killed is removed by the
next one. Owns the names that such files may have: whatever else is in a docket, it
names no file elsewhere.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ...placement import Unusable
from ...records import Record
from .selection import Checkpoint

if TYPE_CHECKING:
    from ...placement import Directory, Placement

VERSION = 4
STATE_BYTES = 1 << 30
"""The bound of a metadata state, of some ten million heads."""
# each export adds three packs until git-repack(1) joins them, with 51 bytes each
_LONGEST_BYTES = 64 << 20
_LONGEST_NUMBER = 15  # digits
_NODE_LEN = 20

PACK = re.compile(r"pack-[0-9a-f]{40}")
"""The name of a pack without its suffix."""
# packs of others go, too; their names are only compared with those that are there
_DROPPED = re.compile(r"pack-[^/\0]*")
_SEGMENT = re.compile(r"[a-z]+(?:-metadata)?-[0-9a-f]{16}\.map")
_STATE = re.compile(r"[a-z]+-metadata-[0-9a-f]{16}\.state|")
_OID = re.compile(r"[0-9a-f]{40}|")
_MARK = re.compile(r"[0-9a-f]{32}|")


class Metadata(Record):
    """What is kept for git-cinnabar; the default is that of nothing exported."""

    commit: str = ""
    """Oid of the metadata commit, in hex."""
    segments: tuple[str, ...] = ()
    """File names of its map's segments, oldest first."""
    state: str = ""
    """File name of what the next export has to know."""
    packs: tuple[str, ...] = ()
    """Those of our packs, oldest first, that only this commit and older ones need."""

    @property
    def files(self) -> tuple[str, ...]:
        """File names of all that is in the map's directory."""
        return (*self.segments, *filter(None, [self.state]))

    @classmethod
    def from_json(cls, data: Any) -> Metadata:
        """Return what ``_asdict`` made; ``ValueError`` if it did not."""
        return cls(
            commit=_text(data["commit"], _OID),
            segments=_names(data["segments"], _SEGMENT),
            state=_text(data["state"], _STATE),
            packs=_names(data["packs"], PACK),
        )


class Layer(Record):
    """Some changesets, and the files that have what was made of them."""

    segments: tuple[str, ...] = ()
    """File names of the map's segments, oldest first."""
    packs: tuple[str, ...] = ()
    """Names of the packs we wrote, without suffix, oldest first."""
    complete: str = ""
    """Name of the one of them with all that git clients need of its changesets, and
    nothing else; empty if there is none."""
    metadata: Metadata = Metadata()
    """What is kept for git-cinnabar, up to this layer."""
    seen: tuple[Checkpoint, ...] = ()
    """What was selected when all of it was exported, up to some places in the
    changelog, ascending; empty if it never was, or if more has been exported since."""

    def with_above(self, above: Layer) -> Layer:
        """Return the layer that this one and the one above it are together."""
        if not above.segments:
            return self
        own, metadata = self.metadata, above.metadata
        return Layer(
            segments=self.segments + above.segments,
            packs=self.packs + above.packs,
            complete=self.complete or above.complete,
            metadata=metadata._replace(
                segments=own.segments + metadata.segments,
                packs=own.packs + metadata.packs,
            ),
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Layer:
        """Read what ``to_json`` wrote; ``ValueError`` if it did not."""
        packs = _names(data["packs"], PACK)
        complete = data.get("complete", "")
        if complete not in ("", *packs):
            raise ValueError("the complete pack is none of the packs")
        return cls(
            segments=_names(data["segments"], _SEGMENT),
            packs=packs,
            complete=complete,
            metadata=Metadata.from_json(data["metadata"]),
            seen=tuple(map(Checkpoint.from_json, data["seen"])),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""
        return {
            "segments": self.segments,
            "packs": self.packs,
            "complete": self.complete,
            "metadata": self.metadata._asdict(),
            "seen": [seen.to_json() for seen in self.seen],
        }


class Docket(Record):
    """One dialect's state; the default is that of nothing exported."""

    base: Layer = Layer()
    """The public changesets. Needs nothing of the other layer."""
    drafts: Layer = Layer()
    """All others, on top of the base: what goes when one of them does."""
    held: tuple[tuple[bytes, bytes], ...] = ()
    """Public changesets that are with the drafts, with the draft that is the reason:
    it comes earlier, and would have the same commit."""
    refused: bool = False
    """Whether something had to go at once: then nothing may be answered from the store
    until an export ends, and what is dropped goes before that does anything else."""
    dropped: tuple[str, ...] = ()
    """Names of packs that go as soon as no ref needs them."""
    named: str = ""
    """``Repository.names_digest`` after the export; empty if that is not known."""
    censored: str = ""
    """``censorship.mark_of`` when the texts were read."""
    summaries: str = ""
    """``strays.summaries`` when git found nothing wrong with them."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments of both layers, those of the base first."""
        return self.base.segments + self.drafts.segments

    @property
    def packs(self) -> tuple[str, ...]:
        """The packs of both layers, those of the base first."""
        return self.base.packs + self.drafts.packs

    @property
    def metadata(self) -> Metadata:
        """What is kept for git-cinnabar of both layers."""
        return self.base.with_above(self.drafts).metadata

    @property
    def metadata_files(self) -> tuple[str, ...]:
        """File names of all of it in the map's directory."""
        return self.base.metadata.files + self.drafts.metadata.files

    @classmethod
    def read(cls, directory: Directory, dialect: bytes) -> Docket:
        """Read the docket; one that is missing, or not ours to read, is empty.

        All is derived data, so the worst that a lost docket costs is another export.
        """
        try:
            data = _parsed(directory.tryread(_name(dialect), _LONGEST_BYTES) or b"{}")
            if data.get("version") != VERSION:
                return cls()
            return cls(
                base=Layer.from_json(data["base"]),
                drafts=Layer.from_json(data["drafts"]),
                held=tuple(
                    (_node(public), _node(draft)) for public, draft in data["held"]
                ),
                refused=data["refused"] is not False,
                dropped=_names(data["dropped"], _DROPPED),
                named=_text(data.get("named", ""), _OID),
                censored=_text(data["censored"], _MARK),
                summaries=_text(data["summaries"], _OID),
            )
        except _DAMAGED:
            return cls()

    def write(self, directory: Directory, dialect: bytes, placement: Placement) -> None:
        """Make this the state. Durable when it returns."""
        data = {
            "version": VERSION,
            "base": self.base.to_json(),
            "drafts": self.drafts.to_json(),
            "held": [(public.hex(), draft.hex()) for public, draft in self.held],
            "refused": self.refused,
            "dropped": self.dropped,
            "named": self.named,
            "censored": self.censored,
            "summaries": self.summaries,
        }
        content = json.dumps(data, indent=1).encode() + b"\n"
        directory.replace(_name(dialect), content, placement)


def _name(dialect: bytes) -> bytes:
    return dialect + b".docket"


_DAMAGED = (
    Unusable,
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)


def _parsed(content: bytes) -> Any:
    """Return what JSON says; ``ValueError`` for numbers that no docket has."""
    return json.loads(
        content,
        object_pairs_hook=_once,
        parse_int=_number,
        parse_float=_refused,
        parse_constant=_refused,
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key is there twice")
    return keys


def _number(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return int(digits)


def _refused(text: str) -> Any:
    raise ValueError(text)


def _text(value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError("not a name of ours")
    return value


def _names(values: Any, pattern: re.Pattern[str]) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ValueError("not a list of names")
    return tuple(dict.fromkeys(_text(value, pattern) for value in values))


def _node(value: Any) -> bytes:
    node = bytes.fromhex(value)
    if len(node) != _NODE_LEN:
        raise ValueError("not a node")
    return node
