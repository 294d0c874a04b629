"""The hook ``preupdate.amalgam``: no update makes a git repository of a stranger.

Histories have files below ``.git``: tests of programs that read git repositories. git
does not check them out. Mercurial does, and whoever runs git in such a directory runs
it with a configuration of their author's, which can name programs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mercurial import error, scmutil
from mercurial.i18n import _

from ..terminal import printable

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

# a file or link .git, which may name a repository, or .git/HEAD, without which there is
# none: paths of a manifest, each before a NUL
_REPOSITORY = re.compile(
    rb"^(?:[^\0\n]*/)?(?:\.git|git~1)(?:/head(?:/[^\0\n]*)?)?\0", re.I | re.M
)


_ITEM = (b"hooks", b"preupdate.amalgam")


def guard(repo: RepoT) -> None:
    """Set the hook, unless the user has set it, for instance to nothing."""
    if not repo.ui.hasconfig(*_ITEM):
        repo.ui.setconfig(*_ITEM, b"python:%s.refuse" % __name__.encode(), b"amalgam")


def refuse(
    ui: UiT, repo: RepoT, parent1: bytes = b"", parent2: bytes = b"", **_kwargs: Any
) -> None:
    """Abort if a changeset to check out has a git repository among its files."""
    repo = repo.unfiltered()
    checked_out = repo.dirstate.parents()
    for symbol in filter(None, (parent1, parent2)):
        ctx = scmutil.revsymbol(repo, symbol)
        # an update in Rust names the parent before, too (merge.py in 7.2)
        if ctx.node() in checked_out:
            continue
        manifest = repo.manifestlog.getstorage(b"").revision(ctx.manifestnode())
        if found := _REPOSITORY.search(manifest):
            path = printable(found[0].rstrip(b"\0"))
            raise error.InputError(
                _(b"changeset %s makes a git repository: it has %s") % (ctx, path),
                hint=_(
                    b"git would obey its configuration; if you trust it: "
                    b"--config hooks.preupdate.amalgam="
                ),
            )
