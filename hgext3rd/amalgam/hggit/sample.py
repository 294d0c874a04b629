"""A look at some lines of hg-git's map: is the commit one of its changeset?

Files and parents are compared, by the rules of hg-git's trees. Commits whose objects
are gone, such as those that nothing led to, are passed over.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _
from mercurial.node import hex as hex_node

from ..gitstore.git.comparison import MODES, Differing, differences, files_of
from ..terminal import printable
from . import mapfile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mercurial.interfaces.types import RepoT

    from ..gitstore.git.comparison import FileDifference
    from ..gitstore.git.process import Git

_SUBMODULES = (b".gitmodules", b".hgsub", b".hgsubstate")
_GITLINK = b"160000"
_REGULAR = MODES[b""]
# paths that Mercurial does not have, and paths that git does not have
_NOT_HG = re.compile(rb"(?:.*/)?\.hg(?:/.*)?|.*[\r\n].*", re.DOTALL)
_NOT_GIT = re.compile(
    rb"(?:.*/)?(?:\.{0,2}|[. ]*\.?[gG][iI][tT](?:~1)?[. ]*)(?:/.*)?", re.DOTALL
)
_PARENT = re.compile(rb"^parent ([0-9a-f]{40})$", re.MULTILINE)
_TREE = re.compile(rb"tree ([0-9a-f]{40})\n")


def check(
    repo: RepoT,
    git: Git,
    lines: Sequence[tuple[bytes, bytes]],
    oids: Mapping[bytes, bytes],
    count: int,
) -> None:
    """Compare about ``count`` commits of ``lines``, which are those of the map.

    ``oids``: commits by changesets. ``StorageError`` names the first line that is
    wrong.
    """
    repo = repo.unfiltered()
    step = max(1, len(lines) // count)
    for number in range(len(lines) - 1, -1, -step):
        oid, node = lines[number]
        if not repo.changelog.hasnode(node) or oids[node] != oid:
            continue
        what = _difference(repo[node], git, oid.hex().encode(), oids)
        if what:
            path = os.path.join(repo.sharedpath, mapfile.NAME)
            text = _(b"'%s', line %d: commit %s is not one of changeset %s: %s")
            names = path, number + 1, oid.hex().encode(), hex_node(node)
            raise error.StorageError(
                text % (*names, what),
                hint=_(b"restore the file from a backup, or remove wrong lines"),
            )


def _difference(
    ctx: Any, git: Git, oid: bytes, oids: Mapping[bytes, bytes]
) -> bytes | None:
    """Return how a commit differs from its changeset; ``None`` if its objects are gone.

    And if it does not differ.
    """
    done = git.run("cat-file", "commit", oid, check=False)
    if done.returncode:
        return None
    head = done.stdout.partition(b"\n\n")[0]
    parents = _PARENT.findall(head)
    expected = [oids.get(it.node(), b"").hex().encode() for it in ctx.parents()]
    expected = [it for it in expected if it]
    is_octopus = ctx.extra().get(b"hg-git", b"").startswith(b"octopus")
    # two commits may have become one changeset
    if not is_octopus and len(parents) != len([it for it in ctx.parents() if it]):
        return _(b"it has another number of parents")
    if not is_octopus and not {*parents} & {*expected} and expected:
        return _(b"it has other parents")
    match = _TREE.match(head)
    found = first_difference(ctx, git, match[1]) if match else None
    if found is None:
        return None
    return _(b"file '%s' differs") % printable(found.path)


def first_difference(ctx: Any, git: Git, tree: bytes) -> FileDifference | None:
    """Return the first file that differs; of those that the changeset changed, if
    only the content does."""
    return next(differing(ctx, git, tree, {*ctx.files()}), None)


def differing(
    ctx: Any, git: Git, tree: bytes, read: set[bytes] | None = None
) -> Iterator[FileDifference]:
    """Yield the files that differ, as hg-git makes trees of changesets.

    ``read``: paths whose content is compared, by default all.
    """
    for it in differences(ctx, _files(git, tree), read):
        if it.path in _SUBMODULES:
            continue
        if it.kind is Differing.ONLY_GIT and _NOT_HG.fullmatch(it.path):
            continue
        if it.kind is Differing.ONLY_HG and _NOT_GIT.fullmatch(it.path):
            continue
        yield it


def _files(git: Git, tree: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield path, mode and oid of files, with the modes that hg knows."""
    for path, mode, blob in files_of(git, tree):
        if mode != _GITLINK:
            yield path, mode if mode in MODES.values() else _REGULAR, blob
