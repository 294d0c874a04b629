"""The ledger of a remote: the refs that we wrote there, and those that we could not.

``docs/formats/ledger.rst`` has the form. A ledger is a file of lines that is only
appended to, each with a checksum, beside a file with the refs of the store that the
remote is known to have (the base). Lines count after the base. Now and then both are
replaced.

An intent is fsynced before git starts, the answer is written after. So after a crash at
any moment, the remote has the value that the ledger says, or that of an intent without
an answer (``intents``): then the remote is asked.

Does not know how the refs get there.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from typing import TYPE_CHECKING

from mercurial import error

from .. import docketfile
from ..files import Unusable
from ..records import Record
from .refmap import RefMap
from .storerefs import StoreRefs
from .transport import NO_OID, FailureKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..files import Directory, Placement

LEDGER = b"ledger"
REMOTE = b"remote"
"""The file that stays if the ledger is lost: it says that we wrote to the remote."""
_TITLE = b"amalgam ledger 1"
_BASE = b"base-"
_SUM_DIGITS = 8
_LEDGER_BYTES = 256 << 20
_BASE_BYTES = 512 << 20
_URL_BYTES = 1 << 14
_LONG_BYTES = 1 << 18
"""The size from which on a ledger is written anew."""
_MANY_REFS = 100
"""A first base is written for more refs."""
_KINDS = {kind.value.encode(): kind for kind in FailureKind}


class LedgerLostError(Exception):
    """A ledger cannot be read, or does not fit its base."""


class RefRefusal(Record):
    """Why a remote does not have a ref as it should be."""

    wanted: bytes
    """The oid that it should have, or ``NO_OID``."""
    kind: FailureKind
    tries: int
    """How often in a row."""
    next: int
    """When to try again by itself, in seconds since the epoch; 0 for never."""
    reason: bytes

    def is_due(self, now: float) -> bool:
        """Return whether to try again by itself."""
        return self.next != 0 and self.next <= now


class Ledger:
    """The ledger of one remote; call ``append`` only with the lock of the remote."""

    def __init__(self, directory: Directory, placement: Placement) -> None:
        """``directory`` is of the remote; ``placement`` says how files are made."""
        self._directory = directory
        self._placement = placement
        self._fd: int | None = None
        self._size_bytes = 0
        self._fresh_bytes = 0
        """The size of the ledger when it was written anew."""
        self._base_name = b""
        self.base = StoreRefs()
        self.map: RefMap = RefMap(())
        """The patterns with which the base became refs of the remote."""
        self.has: dict[bytes, bytes] = {}
        """Refs that differ from the base: the oid that we wrote, or ``NO_OID``."""
        self.intents: dict[bytes, list[bytes]] = {}
        """Refs whose push was not answered: the oids that it may have written."""
        self.refused: dict[bytes, RefRefusal] = {}
        self.look = b""
        """The state in which nothing was left to do but refused refs."""
        self.since = 0
        """Since when something is to do; 0 if nothing is."""
        self.succeeded = 0
        """When the remote had all but refused refs for the last time."""
        self.pushes = 0
        self.written = 0
        """Refs that were written, in all pushes."""
        self.most_commits = 0
        """Commits to push at once, if the remote refused more; 0 if not."""

    @staticmethod
    def url(directory: Directory) -> bytes:
        """Return the address of the remote that was written to; empty if none was."""
        try:
            return directory.tryread(REMOTE, _URL_BYTES).removesuffix(b"\n")
        except (OSError, Unusable):
            return b""

    def read(self) -> None:
        """Read the ledger; ``LedgerLostError`` if it is not there or not whole."""
        try:
            content = self._directory.read(LEDGER, _LEDGER_BYTES)
        except (OSError, Unusable) as exc:
            raise LedgerLostError from exc
        lines = content.split(b"\n")
        lines.pop()  # empty, or a line that was not finished
        texts = map(_checked, lines)
        if next(texts, None) != _TITLE:
            raise LedgerLostError
        self._size_bytes = len(lines[0]) + 1
        for line, text in zip(lines[1:], texts, strict=True):
            if text is None:  # and whatever follows: the machine crashed
                break
            self._size_bytes += len(line) + 1
            try:
                self._take(*text.split(b" "))
            except (TypeError, ValueError, KeyError, error.InputError) as exc:
                raise LedgerLostError from exc
        if not self._fresh_bytes:  # it was written with the lines before it, or never
            raise LedgerLostError

    def _take(self, key: bytes, *values: bytes) -> None:
        """Take one line; ``ValueError`` or the like if it has another form."""
        if key == b"has":
            ref, oid = values
            self.has[ref] = oid
            self.intents.pop(ref, None)
            self.refused.pop(ref, None)
        elif key == b"saw":
            ref, oid = values
            self.has[ref] = oid
        elif key == b"try":
            ref, _old, new = values
            self.intents.setdefault(ref, []).append(new)
        elif key == b"no":
            ref, *rest = values
            self.refused[ref] = _refusal(*rest)
            self.intents.pop(ref, None)
        elif key == b"forget":
            (ref,) = values
            self.refused.pop(ref, None)
        elif key == b"since":
            self.since = docketfile.number(*values)
        elif key == b"done":
            ended, self.look = values
            self.succeeded = docketfile.number(ended)
            self.since = 0
        elif key == b"count":
            pushes, written = map(docketfile.number, values)
            self.pushes += pushes
            self.written += written
        elif key == b"fresh":
            self._fresh_bytes = docketfile.number(*values)
        elif key == b"slice":
            self.most_commits = docketfile.number(*values)
        elif key == b"map":
            self.map = RefMap(values)
        elif key == b"base":
            name, size, checksum = values
            self.base = self._read_base(name, int(size), checksum)
        else:
            raise ValueError("unknown key")

    def _read_base(self, name: bytes, size: int, checksum: bytes) -> StoreRefs:
        try:
            lines = self._directory.read(_BASE + docketfile.uid(name), _BASE_BYTES)
        except (OSError, Unusable) as exc:
            raise LedgerLostError from exc
        if len(lines) != size or b"%08x" % zlib.crc32(lines) != checksum:
            raise LedgerLostError
        self._base_name = name
        return StoreRefs(lines)

    def known(self, ref: bytes) -> bytes:
        """Return the oid of a ref at the remote that we wrote; ``NO_OID`` if none."""
        if ref in self.has:
            return self.has[ref]
        found = (self.base.get(name) for name in self.map.sources(ref))
        return next(filter(None, found), NO_OID)

    def all_known(self) -> dict[bytes, bytes]:
        """Return all refs at the remote that we wrote."""
        found = {
            target: oid
            for name, oid in self.base.table().items()
            if (target := self.map.target(name))
        }
        found.update(self.has)
        return {ref: oid for ref, oid in found.items() if oid != NO_OID}

    def begin(self, url: bytes, mapping: RefMap, has: dict[bytes, bytes]) -> None:
        """Begin a ledger; ``has``: the refs at the remote that count as ours."""
        self._directory.make(self._placement)
        self.map, self.has = mapping, has
        self._write(StoreRefs())
        self._directory.replace(REMOTE, url + b"\n", self._placement)

    def intend(self, changes: Iterable[tuple[bytes, bytes, bytes]]) -> None:
        """Note refs that a push is about to write: ref, old oid, new oid."""
        since = [] if self.since else [(b"since", b"%d" % time.time())]
        self._append([*since, *((b"try", *change) for change in changes)])

    def wrote(self, values: Iterable[tuple[bytes, bytes]], pushes: int = 0) -> None:
        """Note refs that the remote has now: ref, oid or ``NO_OID``."""
        lines: list[tuple[bytes, ...]] = [(b"has", *value) for value in values]
        if pushes:
            lines.append((b"count", b"%d" % pushes, b"%d" % len(lines)))
        self._append(lines)

    def saw(self, values: Iterable[tuple[bytes, bytes]]) -> None:
        """Note refs whose intents the remote has carried out until now, or not.

        git of a killed process may still be at work, so the intents stay.
        """
        self._append((b"saw", *value) for value in values)

    def refuse(self, refusals: Iterable[tuple[bytes, RefRefusal]]) -> None:
        """Note refs that the remote does not take."""
        self._append((b"no", ref, *_fields(refusal)) for ref, refusal in refusals)

    def forget(self, refs: Iterable[bytes]) -> None:
        """Forget refusals."""
        self._append((b"forget", ref) for ref in refs)

    def lower(self, most_commits: int) -> None:
        """Note that the remote takes no more than this number of commits at once."""
        self._append([(b"slice", b"%d" % most_commits)])

    def end(self, look: bytes, refs: StoreRefs, mapping: RefMap) -> None:
        """Note that only refused refs are left; ``refs`` are those of the store."""
        lines: list[tuple[bytes, ...]] = [
            (b"has", ref, self.known(ref)) for ref in self.intents
        ]
        lines.append((b"done", b"%d" % time.time(), look))
        if self.since and any(it.next for it in self.refused.values()):
            lines.append((b"since", b"%d" % self.since))
        self._append(lines)
        is_long = self._size_bytes > max(_LONG_BYTES, 2 * self._fresh_bytes)
        is_first = not self.base.lines and len(self.has) > _MANY_REFS
        if is_long or is_first or mapping.text != self.map.text:
            self._rebase(refs, mapping)

    def _rebase(self, refs: StoreRefs, mapping: RefMap) -> None:
        """Replace the base by ``refs``, and all lines by the differences from it."""
        if mapping.text == self.map.text:
            names = refs.differing(self.base)
            targets = {target for it in names if (target := mapping.target(it))}
            targets |= self.has.keys()
            known = {ref: self.known(ref) for ref in targets}
        else:
            all_known = self.all_known()
            targets = {mapping.target(name) for name in refs.table()} - {b""}
            targets |= all_known.keys()
            known = {ref: all_known.get(ref, NO_OID) for ref in targets}
        self.map = mapping
        self.has = {}
        self.base = refs
        self.has = {ref: oid for ref, oid in known.items() if self.known(ref) != oid}
        self._write(refs)

    def _write(self, base: StoreRefs) -> None:
        """Write the ledger anew."""
        self.close()
        name = os.urandom(8).hex().encode()
        self._directory.replace(_BASE + name, base.lines, self._placement)
        self.base, self._base_name = base, name
        stated = b"%d" % len(base.lines), b"%08x" % zlib.crc32(base.lines)
        lines = [_TITLE, *map(b" ".join, self._lines(*stated))]
        content = b"".join(map(_line, lines))
        content += _line(b"fresh %d" % len(content))
        self._directory.replace(LEDGER, content, self._placement)
        self._size_bytes = self._fresh_bytes = len(content)
        for other in self._directory.names():
            if other.startswith(_BASE) and other != _BASE + name:
                self._directory.remove(other)

    def _lines(self, size: bytes, checksum: bytes) -> Iterator[tuple[bytes, ...]]:
        yield b"map", *self.map.text.split()
        yield b"base", self._base_name, size, checksum
        yield b"count", b"%d" % self.pushes, b"%d" % self.written
        if self.most_commits:
            yield b"slice", b"%d" % self.most_commits
        yield from ((b"has", *item) for item in self.has.items())
        yield from ((b"no", ref, *_fields(it)) for ref, it in self.refused.items())
        for ref, oids in self.intents.items():
            yield from ((b"try", ref, NO_OID, oid) for oid in oids)
        if self.look:
            yield b"done", b"%d" % self.succeeded, self.look
        if self.since:
            yield b"since", b"%d" % self.since

    def _append(self, lines: Iterable[tuple[bytes, ...]]) -> None:
        """Append lines, durably, and take them."""
        lines = list(lines)
        content = b"".join(_line(b" ".join(line)) for line in lines)
        if not content:
            return
        if self._fd is None:
            self._fd = self._opened()
        os.write(self._fd, content)
        os.fsync(self._fd)
        self._size_bytes += len(content)
        for line in lines:
            self._take(*line)

    def _opened(self) -> int:
        """Open the ledger to append, without the rest of a line of a killed process."""
        fd = self._directory.open_to_append(LEDGER)
        if fd is None:  # a copy made of hard links
            content = self._directory.read(LEDGER, _LEDGER_BYTES)
            self._directory.replace(LEDGER, content, self._placement)
            fd = self._directory.open_to_append(LEDGER)
            assert fd is not None
        os.ftruncate(fd, self._size_bytes)
        os.lseek(fd, 0, os.SEEK_END)
        return fd

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def read_only(directory: Directory, placement: Placement) -> Ledger | None:
    """Return the ledger of a remote, to look at; ``None`` without one."""
    ledger = Ledger(directory, placement)
    with contextlib.suppress(LedgerLostError):
        ledger.read()
        return ledger
    return None


def _refusal(
    wanted: bytes, kind: bytes, tries: bytes, after: bytes, *reason: bytes
) -> RefRefusal:
    text = b" ".join(reason)
    numbers = docketfile.number(tries), docketfile.number(after)
    return RefRefusal(wanted, _KINDS[kind], *numbers, text)


def _fields(it: RefRefusal) -> tuple[bytes, ...]:
    kind = it.kind.value.encode()
    return it.wanted, kind, b"%d" % it.tries, b"%d" % it.next, it.reason


def _line(text: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _checked(line: bytes) -> bytes | None:
    """Return the text of a line; ``None`` if its checksum differs."""
    stated, _space, text = line.partition(b" ")
    return text if stated == b"%08x" % zlib.crc32(text) else None
