"""Full verification: the store, compared with an export from nothing.

The export goes to a temporary directory. Its result is right, and anything else in the
store is a difference. Takes the time and the disk space of a full export.

A metadata commit stays until it is replaced. An older one is not part of an export from
nothing, and contains only ids.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import re
import subprocess
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _
from mercurial.node import hex as hex_id

from ...files import Directory
from ...records import Record
from ...scratch import scratch
from .. import requirements
from ..export.conversion import ExportConversion
from ..git.packfiles import object_ids
from ..git.refs import METADATA
from ..imported import ImportedFiles
from ..oidmap import MapFiles, Table
from . import metadata
from .findings import Difference, Note, Remedy
from .mapping import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mercurial.interfaces.types import UiT

    from ..docket import Docket
    from ..git.process import Git
    from ..git.repository import Repository
    from ..oidmap import OidMap
    from ..selection import Selection
    from ..store import GitStore


# of a tree of notes: hexadecimal digits, two for a directory
_NOTES_ENTRY = re.compile(
    rb"(?:40000 [0-9a-f]{2}|1(?:60000|00644) [0-9a-f]{34,40})\0", re.S
)
_IDENTS = b"author  <cinnabar@git> 0 +0000\ncommitter  <cinnabar@git> 0 +0000\n\n"
_EMPTY_TREE = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"


def stale_metadata(git: Git, oids: Iterable[bytes]) -> frozenset[bytes]:
    """Return the members of ``oids`` that only a metadata commit may need.

    Those of the current one are among them.
    """
    found = git.objects(hex_id(oid) for oid in oids)
    return frozenset(
        bytes.fromhex(oid.decode())
        for oid, kind, content in found
        if _is_metadata(kind, content)
    )


def _is_metadata(kind: bytes, content: bytes) -> bool:
    """Return whether an object is a metadata commit, or a replaceable part of one."""
    if kind == b"commit":
        head, idents, message = content.partition(_IDENTS)
        is_notes = not message and head.count(b"\n") == 1
        is_list = head.startswith(_EMPTY_TREE) and not re.fullmatch(
            rb"[0-9a-f]{40}", message
        )
        return bool(idents) and (is_notes or is_list)
    if kind != b"tree":
        return False
    at = 0
    while at < len(content):
        entry = _NOTES_ENTRY.match(content, at)
        if not entry:
            return False
        at = entry.end() + 20
    return True


_PROGRESS = re.compile(rb"([A-Z][\w ]+): +(?:\d+% \((\d+)/(\d+)\)|(\d+))")
# messages of git-fsck(1) about contents that follow from the history
_CONTENT = re.compile(rb"(?:error|warning) in (\w+) ([0-9a-f]{40}): (.*)")


class Recomputed(Record):
    """The result of an export from nothing."""

    oidmap: OidMap
    metadata_map: OidMap
    commit_before: str
    """The metadata commit of the store, in hex; empty if it is behind."""
    commit: str
    """Expected value; empty if unknown."""
    directory: Directory
    packs: tuple[str, ...]
    """Its packs, which are in ``directory``."""

    @classmethod
    @contextlib.contextmanager
    def of(
        cls, store: GitStore, selected: Selection, commit: str
    ) -> Iterator[Recomputed]:
        """Convert ``selected`` into a temporary directory, removed at the end.

        ``commit``: the metadata commit to compare, if any.
        """
        repo = store.repo
        requirements.check(repo)
        with scratch(repo) as path:
            directory = Directory(path)
            maps = MapFiles(directory, store.trust)
            conversion = ExportConversion.of(
                *(repo, store.config, directory, maps),
                adopted=store.adopted,
                imported=ImportedFiles.of(store),
            )
            conversion = conversion._replace(check_each_manifest=True)
            done = conversion.run(repo.ui, selected, 0, names_heads=bool(commit))
            with (
                contextlib.closing(maps.open(done.segments)) as oidmap,
                contextlib.closing(maps.open(done.metadata_segments)) as metadata_map,
            ):
                made = (oidmap, metadata_map, commit, done.commit.oid)
                yield cls(*made, directory, done.packs)

    def check_map(self, ui: UiT, oidmap: OidMap) -> Iterator[Difference]:
        """Yield each pair of ``oidmap`` that is missing, wrong, or not served."""
        return _compare(ui, oidmap, self.oidmap, KINDS)

    def check_metadata(self, ui: UiT, metadata_map: OidMap) -> Iterator[Difference]:
        """Yield missing and wrong metadata of the store."""
        yield from _compare(ui, metadata_map, self.metadata_map, metadata.KINDS)
        found, expected = self.commit_before, self.commit
        if found != expected:
            yield Difference(
                b"metadata",
                METADATA,
                found.encode() or _(b"nothing"),
                expected.encode() or _(b"nothing"),
                Remedy.REBUILD,
            )

    def check_objects(
        self, repository: Repository, docket: Docket
    ) -> Iterator[Difference]:
        """Yield each object that the packs of ``docket`` lack, or have too many."""
        packs = (it for it in docket.packs if it not in docket.tag_packs)
        ids = _merged_ids(repository.packs_directory, packs)
        there = ((oid, True) for oid, _same in itertools.groupby(ids))
        ids = _merged_ids(self.directory, self.packs)
        wanted = (oid for oid, _same in itertools.groupby(ids))
        both = heapq.merge(there, ((oid, False) for oid in wanted))
        foreign = []
        for oid, entries in itertools.groupby(both, key=lambda entry: entry[0]):
            is_there = [is_there for _oid, is_there in entries]
            if is_there == [True]:
                foreign.append(oid)
            elif is_there == [False]:
                yield Difference(
                    b"object",
                    hex_id(oid),
                    _(b"nothing"),
                    _(b"one in a pack"),
                    Remedy.REBUILD,
                )
        old = stale_metadata(repository.git, foreign)
        for oid in foreign:
            if oid not in old:
                yield Difference(
                    b"object",
                    hex_id(oid),
                    _(b"one in a pack"),
                    _(b"nothing that is not served"),
                    Remedy.REBUILD,
                )


def _merged_ids(directory: Directory, packs: Iterable[str]) -> Iterator[bytes]:
    """Yield the ids in the indexes of packs, ascending, as often as they are there."""
    return heapq.merge(*(object_ids(directory, pack) for pack in packs))


def _compare(
    ui: UiT,
    oidmap: OidMap,
    expected: OidMap,
    kinds: Mapping[Table, tuple[bytes, bytes]],
) -> Iterator[Difference]:
    nothing = _(b"nothing")
    for table, node, found, wanted in oidmap.differences(ui, expected):
        what, kind = kinds[table]
        right = nothing + _(b", because no served changeset has it")
        if wanted:
            right = b"%s %s" % (kind, hex_id(wanted))
        there = b"%s %s" % (kind, hex_id(found)) if found else nothing
        yield Difference(what, hex_id(node), there, right, Remedy.REBUILD)


def check_with_git(ui: UiT, git: Git, notes: list[Note]) -> Iterator[Difference]:
    """Yield errors of ``git fsck``; its complaints about contents are notes."""
    # manifests have modes of their own, that no checkout ever sees
    with git.start(
        *("fsck", "--full", "--strict", "--no-dangling", "--progress"),
        config={"fsck.badFilemode": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        try:
            for line in _without_progress(ui, iter(process.stdout.readline, b"")):
                if content := _CONTENT.match(line):
                    kind, oid, complaint = content.groups()
                    notes.append(Note(kind, oid, complaint))
                elif not line.startswith(b"notice: "):
                    nothing = _(b"nothing to say")
                    yield Difference(b"git", b"fsck", line, nothing, Remedy.REBUILD)
        except BaseException:
            process.kill()
            raise


def _without_progress(ui: UiT, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines of git's output, joined if they belong together; show its
    progress."""
    topic = begun = b""
    with contextlib.ExitStack() as bars:
        bar: Any = None
        for part in itertools.chain.from_iterable(line.split(b"\r") for line in lines):
            if match := _PROGRESS.match(part):
                if match[1] != topic:
                    topic = match[1]
                    bars.close()
                    total = int(match[3]) if match[3] else None
                    made = ui.makeprogress(topic.lower(), _(b"objects"), total)
                    bar = bars.enter_context(made)
                bar.update(int(match[2] or match[4]))
            elif part.startswith(b"broken link from"):
                begun = b" ".join(part.split())  # the next line has the rest
            elif text := b" ".join([begun, *part.split()]).strip():
                begun = b""
                yield text
