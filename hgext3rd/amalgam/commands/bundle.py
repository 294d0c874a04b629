"""The command ``git::bundle``."""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING, Any

from mercurial import error, logcmdutil, util
from mercurial.i18n import _
from mercurial.node import hex as hex_id

from ..clonebundles import gitbundle
from ..config import GitConfig
from ..files import naming
from ..terminal import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT, UiT

_STDOUT = b"-"


def run(ui: UiT, repo: RepoT, file: bytes, **opts: Any) -> None:
    """Answer ``git::bundle``."""
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
            line = _(b"bundled %s: %s, %s in %.2f seconds") % (
                counted(written.changesets, b"changeset"),
                counted(written.objects, b"object"),
                util.bytecount(written.bytes),
                written.seconds,
            )
            fm.plain(one_line(line))


@contextlib.contextmanager
def _opened(ui: UiT, file: bytes) -> Iterator[IO[bytes]]:
    """Open the output; a regular file is replaced when it is complete."""
    if file == _STDOUT:
        yield ui.fout
        ui.flush()
        return
    # a symbolic link stays, as with other commands
    path = os.path.realpath(file)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as special:
            yield special
        return
    with naming(path):
        temporary = util.atomictempfile(path, b"wb")
    try:
        yield temporary
        with naming(path):
            temporary.close()
    except BaseException:
        temporary.discard()
        util.tryunlink(temporary._tempname)  # it stays if it could not be renamed
        raise


def _byte_keys(opts: dict[str, Any]) -> dict[bytes, Any]:
    return {name.encode(): value for name, value in opts.items()}
