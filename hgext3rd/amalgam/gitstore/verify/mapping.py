"""Verification of the oid map against the history, and against the objects of git.

Owns three questions. Are the segments as they were written? Has each served changeset a
commit, and no other changeset one? Has git all objects of the map, of the right kind?

Adopted commits that a store begins with must be there, too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import tempfile
import threading
from typing import TYPE_CHECKING, Any

from mercurial import error, pycompat
from mercurial.i18n import _
from mercurial.node import hex as hex_id

from ...records import Record
from ...terminal import counted
from ..oidmap import ID_LEN, Table
from ..plan import changesets
from .findings import Difference, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mercurial.interfaces.types import RepoT, UiT

    from ..adopted import AdoptedFile
    from ..docket import Docket
    from ..git.process import Git
    from ..oidmap import MapFiles, OidMap
    from ..plan import ExportPlan
    from ..selection import Selection


_BATCH = 50_000
_PAIR_LEN = 2 * ID_LEN
_NO_OBJECT = bytes(ID_LEN)

# for each table, the kinds of its nodes and of its objects
KINDS = {
    Table.CHANGESETS: (b"changeset", b"commit"),
    Table.MANIFESTS: (b"manifest", b"tree"),
    Table.FILES: (b"file revision", b"blob"),
}


def check_segments(
    maps: MapFiles, segments: tuple[str, ...], deep: bool
) -> Iterator[Difference]:
    """Yield the segments that cannot be opened or, with ``deep``, were changed."""
    for segment in segments:
        found = b""
        try:
            with contextlib.closing(maps.open([segment])) as oidmap:
                if deep:
                    oidmap.check()
        except FileNotFoundError:
            found = _(b"nothing")
        except OSError as exc:
            found = pycompat.bytestr(exc.strerror)
        except error.StorageError as exc:
            found = _(b"a damaged file (%s)") % exc.message.rpartition(b": ")[2]
        if found:
            whole = _(b"a whole file")
            yield Difference(
                b"map segment", os.fsencode(segment), found, whole, Remedy.REBUILD
            )


class Served(Record):
    """The selected changesets, and their entries in the map."""

    selected: Selection
    nodes: frozenset[bytes]
    """Those that are in it."""
    missing: tuple[tuple[int, bytes], ...]
    """Those that are not: revision and node."""

    @classmethod
    def of(cls, repo: RepoT, oidmap: OidMap, selected: Selection) -> Served:
        """Look up all selected changesets."""
        node = repo.unfiltered().changelog.node
        revs = (rev for rev in range(selected.len) if rev not in selected.excluded)
        found = []
        missing = []
        while batch := list(itertools.islice(revs, _BATCH)):
            nodes = [node(rev) for rev in batch]
            for rev, node_, is_known in zip(
                batch, nodes, oidmap.has(nodes), strict=True
            ):
                if is_known:
                    found.append(node_)
                else:
                    missing.append((rev, node_))
        return cls(selected, frozenset(found), tuple(missing))

    def check(
        self, repo: RepoT, oidmap: OidMap, known_below: int
    ) -> Iterator[Difference]:
        """Yield selected changesets without a commit, and others with one.

        An export takes for granted that changesets below revision ``known_below`` are
        exported.
        """
        one = _(b"a commit")
        for rev, node in self.missing:
            remedy = Remedy.REBUILD if rev < known_below else Remedy.EXPORT
            yield Difference(b"changeset", hex_id(node), _(b"nothing"), one, remedy)
        if oidmap.count(Table.CHANGESETS) == len(self.nodes):
            return
        has_node = repo.unfiltered().changelog.hasnode
        for pairs, _count in oidmap.pairs(Table.CHANGESETS):
            for start in range(0, len(pairs), _PAIR_LEN):
                node = pairs[start : start + ID_LEN]
                if node in self.nodes:
                    continue
                found = b"commit " + hex_id(pairs[start + ID_LEN : start + _PAIR_LEN])
                why = _(b"nothing, because it is not in the repository")
                if has_node(node):
                    why = _(b"nothing, because it is not served")
                withdraw = Remedy.WITHDRAW
                yield Difference(b"changeset", hex_id(node), found, why, withdraw)


def check_layers(
    repo: RepoT, wanted: ExportPlan, docket: Docket, maps: MapFiles
) -> Iterator[Difference]:
    """Yield the layers that have changesets of the other one."""
    if wanted.is_as_seen(repo, docket):
        return
    for name, layer, belongs, expected in (
        (b"base", docket.base, True, _(b"public ones only")),
        (b"drafts", docket.drafts, False, _(b"none")),
    ):
        nodes = changesets(maps, layer)
        count = sum(
            wanted.allowed.has(repo, node)
            and wanted.public.has(repo, node) is not belongs
            for node in nodes
        )
        if count:
            found = counted(count, b"draft" if belongs else b"public changeset")
            yield Difference(b"layer", name, found, expected, Remedy.EXPORT)


def check_objects(
    ui: UiT,
    git: Git,
    oidmap: OidMap,
    kinds: Mapping[Table, tuple[bytes, bytes]] = KINDS,
) -> Iterator[Difference]:
    """Yield objects of the map that git does not find, or that are of another kind.

    ``kinds`` has for each table the kinds of its nodes and of its objects. One git
    process; takes some microseconds an object.
    """
    total = sum(oidmap.count(table) for table in Table)
    progress = ui.makeprogress(_(b"checking objects"), _(b"objects"), total)
    # into a file, since messages about damage could fill a pipe that nobody reads
    with tempfile.TemporaryFile() as complaints, progress:
        process = git.start(
            *("cat-file", "--batch-check=%(objecttype)", "--buffer"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        assert process.stdout is not None
        asking = threading.Thread(target=_ask, args=(process.stdin, oidmap))
        asking.start()
        try:
            for table in Table:
                kind = kinds[table][1] + b"\n"
                for pairs, count in _with_object(oidmap, table):
                    found = list(itertools.islice(process.stdout, count))
                    if len(found) < count:
                        complaints.seek(0)
                        said = complaints.read().strip().rpartition(b"\n")[2]
                        whole = _(b"objects that it can read")
                        yield Difference(b"git", b"", said, whole, Remedy.REBUILD)
                        return
                    if found.count(kind) != count:
                        yield from _wrong(*kinds[table], pairs, found)
                    progress.increment(count)
        finally:
            process.kill()
            asking.join()
            process.stdout.close()
            process.wait()


def _with_object(oidmap: OidMap, table: Table) -> Iterator[tuple[bytes, int]]:
    """Yield the pairs of a table but for changesets without a commit."""
    for pairs, count in oidmap.pairs(table):
        if _NO_OBJECT not in pairs:
            yield pairs, count
            continue
        starts = range(0, len(pairs), _PAIR_LEN)
        each = [pairs[start : start + _PAIR_LEN] for start in starts]
        kept = [pair for pair in each if pair[ID_LEN:] != _NO_OBJECT]
        if kept:
            yield b"".join(kept), len(kept)


def _ask(stdin: Any, oidmap: OidMap) -> None:
    """Write the oids of all tables, one a line, until nobody wants more."""
    with contextlib.suppress(BrokenPipeError), stdin:
        for table in Table:
            for pairs, _count in _with_object(oidmap, table):
                ends = range(_PAIR_LEN, len(pairs) + 1, _PAIR_LEN)
                oids = b"".join([pairs[end - ID_LEN : end] for end in ends])
                stdin.write(oids.hex("\n", ID_LEN).encode() + b"\n")


def _wrong(
    what: bytes, kind: bytes, pairs: bytes, found: list[bytes]
) -> Iterator[Difference]:
    for number, line in enumerate(found):
        if line != kind + b"\n":
            start = number * _PAIR_LEN
            node = pairs[start : start + ID_LEN]
            oid = pairs[start + ID_LEN : start + _PAIR_LEN]
            is_missing = line.endswith(b" missing\n")
            yield Difference(
                kind,
                hex_id(oid),
                _(b"nothing") if is_missing else b"a " + line.strip(),
                _(b"that of %s %s") % (what, hex_id(node)),
                Remedy.REBUILD,
            )


def check_adopted(
    file: AdoptedFile, docket: Docket, deep: bool
) -> Iterator[Difference]:
    """Yield a difference if ``file`` is lost, damaged, or not yet exported.

    A rebuild mends the last; of the others, it says so. ``deep``: read all of it.
    """
    path = file.directory.join(file.name)
    nothing, whole = _(b"nothing"), _(b"a whole file")
    try:
        mark = file.mark()
        if not mark and docket.adopted:
            found, expected = nothing, whole
        elif mark and deep and not file.is_sound():
            found, expected = _(b"a damaged file"), whole
        elif mark != docket.adopted:
            found = _(b"ids of %d changesets") % file.changesets()
            expected = _(b"an export that begins with them")
        else:
            return
    except error.StorageError:
        found, expected = _(b"something else"), whole
    yield Difference(b"adopted commits", path, found, expected, Remedy.REBUILD)
