"""The command that writes a git bundle: ``git::bundle``."""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING, Any

from mercurial import error, exthelper, logcmdutil, registrar, util
from mercurial.cmdutil import formatteropts
from mercurial.i18n import _
from mercurial.node import hex as hex_id

from ..bundles import gitbundle, kinds
from ..configitems import GitConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT, UiT

eh = exthelper.exthelper()

_STDOUT = b"-"


@eh.command(
    b"git::bundle",
    [
        (b"r", b"rev", [], _(b"bundle only these and their ancestors"), _(b"REV")),
        (b"", b"base", [], _(b"without these and their ancestors"), _(b"REV")),
        (b"t", b"type", kinds.GIT_V2, _(b"whom the bundle is for"), _(b"TYPE")),
        (b"", b"filter", b"", _(b"leave objects out: blob:none"), _(b"FILTER")),
        *formatteropts,
    ],
    _(b"[-r REV]... [--base REV]... [-t TYPE] [--filter FILTER] FILE|-"),
    helpcategory=registrar.command.CATEGORY_IMPORT_EXPORT,
)
def git_bundle(ui: UiT, repo: RepoT, file: bytes, **opts: Any) -> None:
    """write a file that git can clone

    Write what a git client would get from this repository to FILE, or to
    standard output: branches, tags, HEAD, and all that they lead to. What is not
    exported yet is exported first, as by :hg:`git::export`. Neither secret nor
    hidden changesets are in a bundle, nor drafts if ``amalgam.git.export`` is
    ``public``. ::

      $ hg git::bundle ../project.bundle
      $ git clone ../project.bundle project

    With -r/--rev, the bundle has the given revisions and their ancestors; its
    branches are those that a clone of just these would have. With --base, it has
    no changesets that the given revisions have: whoever reads it must have
    those. So this is what was added since release 1.0::

      $ hg git::bundle --base 1.0 ../newer.bundle

    The type, -t/--type, says who can read the bundle:

    :git-v2:      Every git. With ``--filter blob:none``, there are no contents of
        files in it: that is for clones with the same filter, by git 2.36 or later,
        which fetch contents from a server when they need them.
    :cinnabar-v1: git-cinnabar, which can begin a clone with it (``cinnabarclone`` in
        its documentation). It has no branches, but what git-cinnabar knows of each
        changeset, and is never based on others.

    Template keywords:

    :type:       String. Type of the bundle.
    :changesets: Integer. Changesets in it.
    :objects:    Integer. Git objects in it.
    :bytes:      Integer. Size of the file.
    :heads:      List of strings. Changesets to base the next bundle on.
    :refs:       Dictionary. Names in the bundle, and their git ids.
    :seconds:    Float. Time taken.
    """
    if file == _STDOUT and opts["template"]:
        raise error.InputError(
            _(b"cannot use --template when the bundle goes to standard output"),
            hint=_(b"name a file"),
        )
    config = GitConfig.from_ui(ui)
    gitbundle.check(repo, opts["type"], bool(opts["base"]), opts["filter"])
    revs = logcmdutil.revrange(repo, opts["rev"]) if opts["rev"] else None
    base = logcmdutil.revrange(repo, opts["base"])
    node = repo.changelog.node
    with _opened(ui, file) as out:
        written = gitbundle.write(
            repo,
            config,
            out,
            opts["type"],
            nodes=None if revs is None else [node(rev) for rev in revs],
            base=[node(rev) for rev in base],
            filter=opts["filter"],
        )
    if file == _STDOUT:
        return
    with ui.formatter(b"git-bundle", _byte_keys(opts)) as fm:
        fm.startitem()
        refs = {name: hex_id(oid) for name, oid in written.refs.items()}
        fm.data(
            bytes=written.bytes,
            changesets=written.changesets,
            heads=fm.formatlist([hex_id(head) for head in written.heads], b"head"),
            objects=written.objects,
            refs=fm.formatdict(refs, key=b"ref", value=b"oid"),
            seconds=round(written.seconds, 3),
            type=written.kind,
        )
        if not ui.quiet:
            fm.plain(
                _(b"bundled %d changesets: %d objects, %s in %.2f seconds\n")
                % (
                    written.changesets,
                    written.objects,
                    util.bytecount(written.bytes),
                    written.seconds,
                )
            )


@contextlib.contextmanager
def _opened(ui: UiT, file: bytes) -> Iterator[IO[bytes]]:
    """Open what is to be written; a regular file is there as a whole, or as it was."""
    if file == _STDOUT:
        yield ui.fout
        ui.flush()
        return
    # a symbolic link stays, as with what other commands write
    path = os.path.realpath(file)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as special:
            yield special
        return
    try:
        temporary = util.atomictempfile(path, b"wb")
    except OSError as exc:
        exc.filename = path  # not a name that nobody knows
        raise
    with temporary as out:
        yield out


def _byte_keys(opts: dict[str, Any]) -> dict[bytes, Any]:
    return {name.encode(): value for name, value in opts.items()}
