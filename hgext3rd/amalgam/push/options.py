"""Push options: what ``git push -o KEY=VALUE`` asks for beside the refs.

Each is refused by name unless it can be done in full: whoever mistypes ``publish=no``
must not publish. Changes nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mercurial import encoding, error, extensions, scmutil
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..records import Record
from ..terminal import utf8_of
from .refs.names import check_length
from .refs.refcommands import PushRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT

_BOOLEANS = {b"yes": True, b"no": False}
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_LONGEST_SHOWN = 80


class PushOptions(Record):
    """What a push asks for."""

    branch: bytes = b""
    """The Mercurial branch of all new commits; empty: each inherits its own."""
    publishes: bool = False
    """Whether pushed changesets become public on a server that keeps drafts."""

    @property
    def stored_branch(self) -> bytes:
        """The branch as Mercurial stores it."""
        name = encoding.fromlocal(self.branch)
        return name.replace(b"\\", b"\\\\")  # as ``changelog`` escapes extras


def parse(values: Iterable[bytes], repo: RepoT, *, may_branch: bool) -> PushOptions:
    """Return what ``values`` ask for; ``PushRefusedError`` if that cannot be.

    ``repo`` is as the pusher sees it; ``may_branch``: whether branches may be made.
    """
    found: dict[bytes, bytes] = {}
    for option in values:
        key, _equals, value = option.partition(b"=")
        if key not in (b"branch", b"publish", b"topic"):
            raise PushRefusedError(
                _(
                    b"unknown push option '%s' (expected branch=NAME, publish=yes or "
                    b"publish=no)"
                )
                % option[:_LONGEST_SHOWN]
            )
        if key in found:
            raise PushRefusedError(_(b"push option '%s' is given twice") % key)
        found[key] = value
    if b"topic" in found:
        _refuse_topic(repo)
    branch = b""
    if b"branch" in found:
        branch = _branch(found[b"branch"], repo, may_branch)
    publishes = b"publish" in found and _publishes(found[b"publish"], repo)
    return PushOptions(branch, publishes)


def _refuse_topic(repo: RepoT) -> None:
    """Say why there is no way to push a topic."""
    enabled = {name for name, _module in extensions.extensions(repo.ui)}
    if b"topic" not in enabled:
        raise PushRefusedError(
            _(b"no push option 'topic': the server has no extension of that name")
        )
    raise PushRefusedError(
        _(
            b"no push option 'topic': git users do not see drafts with a topic; push "
            b"to a new branch, or with hg"
        )
    )


def _publishes(value: bytes, repo: RepoT) -> bool:
    if value not in _BOOLEANS:
        raise PushRefusedError(
            _(b"invalid push option publish=%s (expected yes or no)")
            % value[:_LONGEST_SHOWN]
        )
    if not _BOOLEANS[value] and repo.publishing():
        raise PushRefusedError(
            _(b"publish=no is not possible: this server publishes all that is pushed")
        )
    return _BOOLEANS[value]


def check_new(name: bytes, repo: RepoT) -> None:
    """Refuse a new named branch that is there; ``name`` as Mercurial has it."""
    if name in repo.unfiltered().branchmap():
        raise PushRefusedError(
            _(
                b"'%s' is a Mercurial branch already: start from its tip, and push "
                b"without the option"
            )
            % encoding.fromlocal(name)[:_LONGEST_SHOWN]
        )


def check_branch(name: bytes, repo: RepoT, *, has_commits: bool) -> None:
    """Refuse a new named branch that is there, or that nothing would be on.

    ``name`` as Mercurial has it; empty if there is no new named branch.
    """
    if name:
        check_new(name, repo)
        if not has_commits:
            raise PushRefusedError(
                _(b"no new commits for the Mercurial branch '%s'") % name
            )


def _branch(value: bytes, repo: RepoT, may_branch: bool) -> bytes:
    """Return the name of a new Mercurial branch."""
    if not may_branch:
        raise PushRefusedError(
            _(
                b"new Mercurial branches are made with hg branch here, or ask the "
                b"operator to set amalgam.git.push-branches = yes"
            )
        )
    name = encoding.tolocal(value)
    shown = value[:_LONGEST_SHOWN]
    if _CONTROL.search(value) or encoding.fromlocal(name) != value or not value:
        raise PushRefusedError(_(b"no Mercurial branch can have the name '%s'") % shown)
    check_length(value)
    try:
        scmutil.checknewlabel(repo, name, b"branch")
    except error.Abort as exc:
        problem = utf8_of(stringutil.forcebytestr(exc))
        raise PushRefusedError(_(b"no Mercurial branch: %s") % problem) from None
    check_new(name, repo)
    if name in repo._bookmarks:
        raise PushRefusedError(
            _(b"'%s' is a bookmark already; choose another name") % shown
        )
    return name
