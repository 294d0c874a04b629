"""A git store against one that is made anew, in a temporary directory, from nothing.

Whatever an export would make today is right; what the store has otherwise is a
difference. Takes as long as an export of all, and as much room as its packs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _
from mercurial.node import hex as hex_id

from .. import requirements
from ..conversion import Conversion
from ..oidmap import OidMap, Table
from .files import PACKS, object_ids
from .findings import Difference, Note, Remedy
from .mapping import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mercurial.interfaces.types import UiT

    from ..docket import Docket
    from ..export import GitStore
    from ..gitprocess import Git
    from ..repository import Repository
    from ..selection import Selection

_PROGRESS = re.compile(rb"([A-Z][\w ]+): +(?:\d+% \((\d+)/(\d+)\)|(\d+))")
# what git-fsck(1) says of an object's content, which follows from the history
_CONTENT = re.compile(rb"(?:error|warning) in (\w+) ([0-9a-f]{40}): (.*)")


@dataclasses.dataclass(frozen=True, slots=True)
class Recomputed:
    """What an export from nothing makes."""

    oidmap: OidMap
    idx_path: bytes | None
    """The index of its pack; ``None`` if there was nothing to convert."""

    @classmethod
    @contextlib.contextmanager
    def of(cls, store: GitStore, selected: Selection) -> Iterator[Recomputed]:
        """Convert ``selected`` into a temporary directory, which goes at the end."""
        repo = store.repo
        requirements.check(repo)
        directory = os.fsencode(tempfile.mkdtemp(prefix="amalgam-verify-"))
        try:
            conversion = Conversion(
                store_path=repo.store.path,
                encoding=requirements.encoding(repo),
                packs_path=directory,
                map_path=directory,
                prefix=store.config.dialect,
                file_mode=0o600,
                check_texts=store.config.check_texts,
            )
            done = conversion.run(repo.ui, selected, (), 0)
            idx = os.path.join(directory, os.fsencode(done.pack) + b".idx")
            with contextlib.closing(OidMap(directory, done.segments)) as oidmap:
                yield cls(oidmap, idx if done.pack else None)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def check_map(self, ui: UiT, oidmap: OidMap) -> Iterator[Difference]:
        """Yield each pair of ``oidmap`` that is missing, wrong, or not served."""
        total = sum(oidmap.count(table) + self.oidmap.count(table) for table in Table)
        nothing = _(b"nothing")
        with ui.makeprogress(_(b"comparing ids"), _(b"ids"), total) as progress:
            for table in Table:
                what, kind = KINDS[table]
                differences = oidmap.differences(table, self.oidmap, progress.increment)
                for node, found, expected in differences:
                    right = nothing + _(b", since no served changeset has it")
                    if expected:
                        right = b"%s %s" % (kind, hex_id(expected))
                    there = b"%s %s" % (kind, hex_id(found)) if found else nothing
                    yield Difference(what, hex_id(node), there, right, Remedy.REBUILD)

    def check_objects(
        self, repository: Repository, docket: Docket
    ) -> Iterator[Difference]:
        """Yield each object that the packs of ``docket`` lack, or have too many."""
        files = [
            repository.vfs.join(b"%s/%s.idx" % (PACKS, os.fsencode(pack)))
            for pack in docket.packs
        ]
        there = (
            (oid, True)
            for oid, _same in itertools.groupby(heapq.merge(*map(object_ids, files)))
        )
        wanted: Iterable[bytes] = (
            () if self.idx_path is None else object_ids(self.idx_path)
        )
        both = heapq.merge(there, ((oid, False) for oid in wanted))
        for oid, entries in itertools.groupby(both, key=lambda entry: entry[0]):
            is_there = [is_there for _oid, is_there in entries]
            if len(is_there) == 1:
                found, expected = _(b"nothing"), _(b"one in a pack")
                if is_there[0]:
                    found, expected = (
                        _(b"one in a pack"),
                        _(b"nothing that is not served"),
                    )
                yield Difference(
                    b"object", hex_id(oid), found, expected, Remedy.REBUILD
                )


def check_with_git(ui: UiT, git: Git, notes: list[Note]) -> Iterator[Difference]:
    """Yield what ``git fsck`` finds broken; what it dislikes, but is so, is a note."""
    with git.start(
        *("fsck", "--full", "--strict", "--no-dangling", "--progress"),
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
    """Yield what git said, in one line if it took two; draw its progress as our own."""
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
                begun = b" ".join(part.split())  # what it leads to is the next line
            elif text := b" ".join([begun, *part.split()]).strip():
                begun = b""
                yield text
