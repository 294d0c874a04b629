"""Verification of refs and HEAD.

Reads the files itself, because git would believe a loose ref.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from mercurial.i18n import _
from mercurial.node import hex as hex_id
from mercurial.utils import stringutil

from ...records import Record
from ...terminal import counted
from .findings import Difference, Note, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mercurial.interfaces.types import RepoT

    from ..docket import Docket
    from ..git.repository import Repository
    from ..remotetags import ShownTags

_LINE = re.compile(rb"([0-9a-f]{40}) (refs/[^ \n]+)\n")
_PEELED = re.compile(rb"\^[0-9a-f]{40}\n")
_LONGEST_SHOWN = 60


class ExpectedRefs(Record):
    """Names that git users should see."""

    refs: Mapping[bytes, bytes]
    """Name to oid, 20 bytes."""
    peeled: Mapping[bytes, bytes]
    """The tag objects among the oids, with the objects that they lead to."""
    head: bytes
    """The ref that HEAD leads to, which need not exist."""
    pending: Mapping[bytes, bytes]
    """Name to node, for refs whose changeset has no commit yet."""

    def check(self, repository: Repository, named: str) -> Iterator[Difference]:
        """Yield each ref that is missing, wrong, or of others, and so HEAD.

        ``named``: the digest of the refs that the last export wrote.
        """
        is_named = repository.is_named(self.refs, self.head, self.peeled)
        if not self.pending and is_named:
            return  # the rest takes several times as long
        found: dict[bytes, bytes] = {}
        differs = False
        for difference in self._check_packed(repository, found):
            differs = True
            yield difference
        loose, there = repository.loose_refs(), repository.refs()
        is_as_exported = named == repository.names_digest()
        for name, content in sorted(loose.items()):
            # ours, or as good
            if name in there and (is_as_exported or there[name] == self.refs.get(name)):
                found[name] = there[name]
                continue
            differs = True
            no_file = _(b"no file of that name")
            shown = _shown(content)
            yield Difference(b"loose ref", name, shown, no_file, Remedy.EXPORT)
        nothing = _(b"nothing")
        for name in sorted(found.keys() | self.refs.keys() | self.pending.keys()):
            oid, wanted = found.get(name), self.refs.get(name)
            if oid == wanted and name not in self.pending:
                continue
            differs = True
            expected = hex_id(wanted) if wanted else nothing
            if name in self.pending:
                expected = _(b"the commit of changeset %s, which is not exported yet")
                expected %= hex_id(self.pending[name])
            shown = hex_id(oid) if oid else nothing
            yield Difference(b"ref", name, shown, expected, Remedy.EXPORT)
        head = repository.head_content()
        if head != b"ref: %s\n" % self.head:
            differs = True
            wanted_head = b"'ref: %s'" % self.head
            yield Difference(b"ref", b"HEAD", _shown(head), wanted_head, Remedy.EXPORT)
        if not differs and not is_named:
            yield Difference(
                b"file",
                b"packed-refs",
                _(b"the right refs, not as an export writes them"),
                _(b"what git can search"),
                Remedy.EXPORT,
            )

    def _check_packed(
        self, repository: Repository, found: dict[bytes, bytes]
    ) -> Iterator[Difference]:
        """Fill ``found`` from ``packed-refs``, and yield the lines that are no refs."""
        lines = repository.packed_file().splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            if match := _LINE.fullmatch(line):
                found[match[2]] = bytes.fromhex(match[1].decode())
            elif not (
                (number == 1 and line.startswith(b"# pack-refs with:"))
                or _PEELED.fullmatch(line)
            ):
                yield Difference(
                    b"packed-refs line",
                    b"%d" % number,
                    _shown(line),
                    _(b"an id and a ref"),
                    Remedy.EXPORT,
                )


def check_tags(
    repository: Repository, docket: Docket, tags: ShownTags
) -> Iterator[Difference]:
    """Yield layers whose packs of tag objects have other ones than ``tags``."""
    with contextlib.suppress(FileNotFoundError):  # of a missing pack, which is told
        strays = tags.stray_packs(repository.packs_directory, docket)
        for name, is_stray in zip((b"base", b"drafts"), strays, strict=True):
            if is_stray:
                found, wanted = _(b"other tag objects"), _(b"those of its tags")
                yield Difference(b"layer", name, found, wanted, Remedy.REBUILD)


def unreachable(view: RepoT, nodes: Iterable[bytes]) -> tuple[int, list[Note]]:
    """Return the number of changesets without a ref, and a note about them.

    ``nodes`` are those that refs name. The others are not wrong: clients that ask for
    them by id get them.
    """
    changelog = view.changelog
    named = map(changelog.rev, nodes)
    reached = frozenset(changelog.ancestors(named, inclusive=True))
    revs = [rev for rev in changelog if rev not in reached]
    if not revs:
        return 0, []
    parents = {parent for rev in revs for parent in changelog.parentrevs(rev)}
    heads = sum(rev not in parents for rev in revs)
    text = _(b"no ref leads to %s in %s")
    text %= (counted(len(revs), b"changeset"), counted(heads, b"head"))
    return len(revs), [Note(b"refs", b"", text)]


def _shown(content: bytes) -> bytes:
    """Return content for people: one line, no control bytes, not too long."""
    if not content:
        return _(b"nothing")
    line = stringutil.escapestr(content.rstrip(b"\n"))
    if len(line) > _LONGEST_SHOWN:
        line = line[:_LONGEST_SHOWN] + b"..."
    return b"'%s'" % line
