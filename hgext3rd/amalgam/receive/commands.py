"""Ref commands and push options of a push, and its result (gitprotocol-pack(5)).

Names of new branches and tags have a length limit: git users would not see longer ones
(``gitstore.git.refs``).

Each push option (``git push -o KEY=VALUE``) of amalgam's is refused by name unless it
can be done in full: a mistyped ``publish=no`` must not publish. Options of other
servers, which users may have in ``push.pushOption``, are ignored with a warning.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from mercurial import encoding, error, extensions, scmutil
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..gitstore.git.refs import LONGEST_NAME, LONGEST_PART, is_too_long
from ..records import Record
from ..terminal import utf8_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mercurial.interfaces.types import RepoT


ZERO = b"0" * 40
"""The oid that stands for no ref."""
_COMMAND = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40}) (refs/[^\n\0]*)\n?")


class RefCommand(Record):
    """One ref of a push; oids in hex, ``ZERO`` for none."""

    old: bytes
    """Oid of the ref that the client knows."""
    new: bytes
    """Its new oid."""
    ref: bytes
    """Its full name."""

    @classmethod
    def parse(cls, line: bytes) -> RefCommand:
        """Return the command that a line is; ``ValueError`` if it is none."""
        found = _COMMAND.fullmatch(line)
        if not found:
            raise ValueError("not a ref command")
        return cls(found[1], found[2], found[3])


class PushRequest(Record):
    """Commands and options of a push."""

    commands: tuple[RefCommand, ...]
    """In the order in which they are answered."""
    is_atomic: bool = False
    """Whether all are refused if one is."""
    options: tuple[bytes, ...] = ()
    """The push options, as the client wrote them."""


class PushResult(Record):
    """Result of a push."""

    refused: dict[bytes, bytes]
    """Refs that stay as they were, each with a sentence; all others were changed."""
    said: tuple[bytes, ...] = ()
    """Lines in UTF-8 for the pusher: output of Mercurial and its hooks."""


class PushRefusedError(Exception):
    """Refusal of a whole push."""

    def __init__(self, sentence: bytes) -> None:
        """``sentence`` is for the pusher, in UTF-8."""
        super().__init__(sentence)
        self.sentence = sentence


def check_length(name: bytes) -> None:
    """Refuse ``name``, in UTF-8 and without prefix, if not every clone can have it."""
    if not name:
        raise PushRefusedError(_(b"the name is empty; push HEAD:NAME"))
    if is_too_long(name):
        raise PushRefusedError(
            _(
                b"the name is too long for clones; choose one with at most %d bytes "
                b"between slashes, and %d altogether"
            )
            % (LONGEST_PART, LONGEST_NAME)
        )


_KEYS = (b"branch", b"publish", b"topic")
_BOOLEANS = {b"yes": True, b"no": False}
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_LONGEST_SHOWN = 80


class PushOptions(Record):
    """Options of a push."""

    branch: bytes = b""
    """The Mercurial branch of all new commits; empty: each inherits its own."""
    publishes: bool = False
    """Whether pushed changesets become public on a server that keeps drafts."""
    ignored: tuple[bytes, ...] = ()
    """Options of other servers."""

    @property
    def stored_branch(self) -> bytes:
        """The branch as Mercurial stores it."""
        name = encoding.fromlocal(self.branch)
        return name.replace(b"\\", b"\\\\")  # as ``changelog`` escapes extras


def parse_options(
    values: Iterable[bytes], repo: RepoT, *, may_branch: bool
) -> PushOptions:
    """Parse ``values``; ``PushRefusedError`` for impossible ones.

    ``repo`` is the pusher's view; ``may_branch``: whether branches may be made.
    """
    found: dict[bytes, bytes] = {}
    ignored = []
    for option in values:
        key, _equals, value = option.partition(b"=")
        if key not in _KEYS:
            _refuse_misspelt(key)
            ignored.append(option)
            continue
        if key in found:
            raise PushRefusedError(
                _(b"push option '%s' is given twice; give it once") % key
            )
        found[key] = value
    if b"topic" in found:
        _refuse_topic(repo)
    branch = b""
    if b"branch" in found:
        branch = _branch(found[b"branch"], repo, may_branch)
    publishes = b"publish" in found and _publishes(found[b"publish"], repo)
    return PushOptions(branch, publishes, tuple(ignored))


def _refuse_misspelt(key: bytes) -> None:
    """Refuse a key that is nearly one of ours: a mistyped one must not be ignored."""
    known = [it.decode() for it in _KEYS]
    near = difflib.get_close_matches(key.decode("latin-1").lower(), known, 1, 0.7)
    if near:
        raise PushRefusedError(
            _(b"unknown push option '%s' (did you mean '%s'?)")
            % (key[:_LONGEST_SHOWN], near[0].encode())
        )


def _refuse_topic(repo: RepoT) -> None:
    """Refuse a topic."""
    enabled = {name for name, _module in extensions.extensions(repo.ui)}
    if b"topic" not in enabled:
        raise PushRefusedError(
            _(b"the server has no topics; push without the option 'topic'")
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
            _(
                b"this server publishes all that is pushed; push without the option "
                b"publish=no"
            )
        )
    return _BOOLEANS[value]


def check_new(name: bytes, repo: RepoT) -> None:
    """Refuse a new named branch that is there; ``name`` as Mercurial has it."""
    if name in repo.unfiltered().branchmap():
        raise PushRefusedError(
            _(
                b"'%s' is a Mercurial branch already; start from its tip, and push "
                b"without the option"
            )
            % encoding.fromlocal(name)[:_LONGEST_SHOWN]
        )


def check_branch(name: bytes, repo: RepoT, *, has_commits: bool) -> None:
    """Refuse a new named branch that exists, or would have no changesets.

    ``name`` in Mercurial's encoding; empty without a new named branch.
    """
    if name:
        check_new(name, repo)
        if not has_commits:
            raise PushRefusedError(
                _(
                    b"no new commits for the Mercurial branch '%s'; commit first, or "
                    b"push without the option"
                )
                % name
            )


def _branch(value: bytes, repo: RepoT, may_branch: bool) -> bytes:
    """Return the name of a new Mercurial branch."""
    if not may_branch:
        raise PushRefusedError(
            _(
                b"new Mercurial branches are made with hg branch here; push without "
                b"the option, or ask the operator for amalgam.git.push-branches = yes"
            )
        )
    name = encoding.tolocal(value)
    shown = value[:_LONGEST_SHOWN]
    if _CONTROL.search(value) or encoding.fromlocal(name) != value or not value:
        raise PushRefusedError(
            _(b"no Mercurial branch can have the name '%s'; choose another name")
            % shown
        )
    check_length(value)
    try:
        scmutil.checknewlabel(repo, name, b"branch")
    except error.Abort as exc:
        problem = utf8_of(stringutil.forcebytestr(exc))
        raise PushRefusedError(
            _(b"no Mercurial branch: %s; choose another name") % problem
        ) from None
    check_new(name, repo)
    if name in repo._bookmarks:
        raise PushRefusedError(
            _(b"'%s' is a bookmark already; choose another name") % shown
        )
    return name
