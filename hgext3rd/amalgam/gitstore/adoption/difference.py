"""Where a commit of a mirror differs from its changeset: for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error, pycompat
from mercurial.i18n import _

from ...terminal import printable
from .mirror import object_id

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ..exporting.conversion import Unfit
    from .mirror import Mirror

_MODES = {b"": b"100644", b"x": b"100755", b"l": b"120000"}
# hg-fast-export leaves it out, and that is accepted
_LEFT_OUT = b".hgtags"
_MISFITS = {
    2: _(b"its parents are not the commits of the changeset's parents"),
    3: _(b"its lines are not those of a commit"),
    4: _(b"another changeset has it"),
}


def refusal(
    repo: RepoT, mirror: Mirror, unfit: Unfit, mapping: dict[bytes, bytes]
) -> error.InputError:
    """Return the error that says why a commit cannot be that of its changeset."""
    oid, hint = mapping[unfit.node], None
    what = _MISFITS.get(unfit.misfit)
    if what is None:
        commit = next(iter(mirror.commits([(unfit.node, oid)])))
        path, what = first(repo, mirror, unfit.node, commit.tree)
        what = _(b"file '%s' %s") % (printable(path), what)
        hint = _(b"a mirror whose files were filtered or changed cannot be adopted")
    text = _(b"commit %s is not one of changeset %s: %s")
    names = oid.hex().encode(), unfit.node.hex().encode()
    return error.InputError(text % (*names, what), hint=hint)


def first(repo: RepoT, mirror: Mirror, node: bytes, tree: bytes) -> tuple[bytes, bytes]:
    """Return the first path that differs, and how. Reads the files before it."""
    ctx = repo.unfiltered()[node]
    manifest = ctx.manifest()
    there = {path: (mode, blob) for path, mode, blob in mirror.tree(tree)}
    for path in sorted({*there, *manifest}):
        if path not in there:
            if path != _LEFT_OUT:
                return path, _(b"is not in the commit")
        elif path not in manifest:
            return path, _(b"is only in the commit")
        else:
            mode, blob = there[path]
            expected = _MODES.get(pycompat.bytestr(manifest.flags(path)))
            if mode != expected:
                return path, _(b"has mode %s, expected %s") % (mode, expected or b"?")
            if object_id(b"blob", ctx[path].data()).hex().encode() != blob:
                return path, _(b"has another content")
    return b"", _(b"differs in form only")
