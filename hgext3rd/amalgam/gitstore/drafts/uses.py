"""What a changeset introduces: the objects that it has and its first parent has not.

Git is asked, since a changeset that is to go may no longer be in the changelog. All
that a changeset leads to is what it introduces, and what its ancestors do. So an object
is needed as long as any changeset introduces it. What git-cinnabar needs is included:
notes, manifests' commits with their trees, and metadata of files.
"""

from __future__ import annotations

import binascii
import contextlib
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...records import Record
from ..oidmap import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..docket import Docket
    from ..git.process import Git
    from ..oidmap import OidMap
    from ..store import GitStore

EMPTY_TREE = bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
# they may name objects that are gone
_CONFIG = {"core.commitGraph": "false", "core.multiPackIndex": "false"}
_OPTIONS = (
    *("--no-walk=unsorted", "--stdin", "--raw", "-r", "-t", "--root", "--no-abbrev"),
    *("--no-renames", "--diff-merges=first-parent", "--ignore-submodules=none"),
    *("--no-show-signature", "--no-notes", "--no-color", "--format=%H %T %P"),
)
# of a line of --raw: mode and id of what is new
_NEW_MODE, _NEW_ID = slice(8, 11), slice(56, 96)
_FILE_REVISION = b"160"
_NOTHING = b"0" * 40
_AT_ONCE = 4096


class Uses(Record):
    """What one changeset introduces."""

    node: bytes
    commit: bytes
    objects: frozenset[bytes]
    """Oids, its commit, its note and the commit of its manifest included."""
    manifest: bytes
    """Node of its manifest; empty if that is the null manifest."""
    manifest_commit: bytes
    """Empty as well."""
    manifest_parents: tuple[bytes, ...]
    """The commits that this one builds upon."""
    files: frozenset[bytes]
    """Nodes of file revisions."""

    def counted(self) -> set[bytes]:
        """Return all that counts as used by this changeset.

        Whether a manifest is built upon is counted under an id of its own, as it is no
        reason to keep the manifest.
        """
        return {*self.objects, *self.files, *map(built_upon, self.manifest_parents)}


def built_upon(manifest_commit: bytes) -> bytes:
    """Return the id under which it is counted how often a manifest is built upon."""
    return bytes(byte ^ 0xFF for byte in manifest_commit)


def of_changesets(
    store: GitStore, docket: Docket, nodes: Sequence[bytes]
) -> Iterator[Uses]:
    """Yield what each of ``nodes``, exported changesets, introduces, in their order.

    ``StorageError`` if the store lacks something.
    """
    with (
        contextlib.closing(store.open_map(docket)) as oidmap,
        contextlib.closing(store.open_metadata_map(docket)) as metadata,
    ):
        for start in range(0, len(nodes), _AT_ONCE):
            some = nodes[start : start + _AT_ONCE]
            yield from _of_some(store.repository.git, oidmap, metadata, some)


def _of_some(
    git: Git, oidmap: OidMap, metadata: OidMap, nodes: Sequence[bytes]
) -> Iterator[Uses]:
    commits = _known(oidmap.oids(nodes))
    notes = _known(metadata.oids(commits))
    manifests = [_manifest_of(note) for note in contents(git, notes)]
    named = sorted({*manifests} - {b""})
    commit_of = dict(
        zip(named, _known(metadata.oids(named, Table.MANIFESTS)), strict=True)
    )
    of_commits = _introduced(git, commits)
    of_manifests = _introduced(git, list(commit_of.values()))
    files = sorted(set().union(*(found.files for found in of_manifests.values())))
    of_files = dict(zip(files, metadata.oids(files, Table.FILES), strict=True))
    for node, commit, note, manifest in zip(
        nodes, commits, notes, manifests, strict=True
    ):
        objects = {commit, note, *of_commits[commit].objects}
        manifest_commit = commit_of.get(manifest, b"")
        own = of_manifests.get(manifest_commit, _Introduced())
        if manifest_commit:
            objects.update((manifest_commit,), own.objects)
        objects.update(filter(None, map(of_files.__getitem__, own.files)))
        objects.discard(EMPTY_TREE)
        yield Uses(
            node=node,
            commit=commit,
            objects=frozenset(objects),
            manifest=manifest,
            manifest_commit=manifest_commit,
            manifest_parents=own.parents,
            files=own.files,
        )


def _known(oids: Sequence[bytes | None]) -> list[bytes]:
    if None in oids:
        raise error.StorageError(_(b"the oid map lacks something"))
    return [oid for oid in oids if oid is not None]


class _Introduced(Record):
    """What git shows of a commit."""

    objects: frozenset[bytes] = frozenset()
    files: frozenset[bytes] = frozenset()
    """What entries lead to that have the modes of file revisions."""
    parents: tuple[bytes, ...] = ()


def _introduced(git: Git, commits: Sequence[bytes]) -> dict[bytes, _Introduced]:
    """Return what each of ``commits`` has and its first parent has not."""
    if not commits:
        return {}
    found: dict[bytes, _Introduced] = {}
    entries: tuple[set[bytes], set[bytes]] = (set(), set())
    head: list[bytes] = []

    def end() -> None:
        if head:
            commit, *parents = (head[0], *head[2:])
            found[commit] = _Introduced(
                frozenset((*entries[0], head[1])), frozenset(entries[1]), tuple(parents)
            )

    output = git.run(
        "log", *_OPTIONS, input=b"".join(map(_line, commits)), config=_CONFIG
    ).stdout
    for line in output.splitlines():
        if line.startswith(b":"):
            if (new := line[_NEW_ID]) != _NOTHING:
                is_file_revision = line[_NEW_MODE] == _FILE_REVISION
                entries[is_file_revision].add(binascii.unhexlify(new))
        elif line:
            end()
            head = [*map(binascii.unhexlify, line.split())]
            entries = (set(), set())
    end()
    if found.keys() != {*commits}:
        raise error.StorageError(_(b"git shows other commits than it was asked for"))
    return found


def contents(git: Git, oids: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the content of each of ``oids``, in their order."""
    output = git.run(
        "cat-file", "--batch", input=b"".join(map(_line, oids)), config=_CONFIG
    ).stdout
    at = 0
    for _oid in oids:
        end = output.index(b"\n", at)
        head = output[at:end].split(b" ")
        if len(head) != 3:
            raise error.StorageError(_(b"git lacks an object"))
        length = int(head[2])
        yield output[end + 1 : end + 1 + length]
        at = end + length + 2


def _manifest_of(note: bytes) -> bytes:
    """Return the manifest that a note names, nothing if it names none."""
    for line in note.split(b"\n"):
        key, _space, value = line.partition(b" ")
        if key == b"manifest":
            return binascii.unhexlify(value)
        if key != b"changeset":
            break
    return b""


def _line(oid: bytes) -> bytes:
    return binascii.hexlify(oid) + b"\n"
