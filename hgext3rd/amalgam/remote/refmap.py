"""Which refs of the git store go to a remote, and under which names.

``hg help config.amalgam`` has the form of the patterns. Does not know any refs.
"""

from __future__ import annotations

import re

from mercurial import error
from mercurial.i18n import _

from ..gitstore.git.refs import HEADS, TAGS
from ..records import Record

_DEFAULT = (b"refs/heads/*", b"refs/tags/*")
_PRIVATE = (b"refs/cinnabar/", b"refs/hg/")
"""Refs that only a pattern for them alone sends."""
# a name of git with at most one star in it; and no space or control character
_PATTERN = re.compile(rb"refs/[^\x00-\x20\x7f~^:?\[\\*]*\*?[^\x00-\x20\x7f~^:?\[\\*]*")


class _Rule(Record):
    """A pattern, compiled."""

    source: re.Pattern[bytes]
    target: bytes | None
    """With a star where the source's star matched; None for the same name."""
    is_private: bool

    def applied(self, name: bytes) -> bytes:
        """Return the name at the remote; empty if the rule is not for ``name``."""
        match = self.source.fullmatch(name)
        if match is None or (name.startswith(_PRIVATE) and not self.is_private):
            return b""
        if self.target is None:
            return name
        return self.target.replace(b"*", match[1] if match.re.groups else b"")


class RefMap:
    """A list of patterns, compiled."""

    def __init__(self, patterns: tuple[bytes, ...]) -> None:
        """``InputError`` if one of the patterns has another form."""
        self.text = b" ".join(patterns)
        """The patterns in one line, to see whether they have changed."""
        self._refused = [_rule(it[1:]) for it in patterns if it.startswith(b"!")]
        given = [it for it in patterns if not it.startswith(b"!")]
        self._renames = [_rule(it) for it in given if b":" in it]
        plain = [it for it in given if b":" not in it]
        if not plain and not any(b"*" in it for it in given):
            plain = [*_DEFAULT]
        self._rules = [*self._renames, *map(_rule, plain)]
        self.is_plain = not self._renames
        """Whether all refs keep their names."""
        self._sources: dict[bytes, list[bytes]] = {}
        ends = [it.partition(b":")[2] or it for it in given] or [*_DEFAULT]
        self.is_usual = all(_whole(it).startswith((HEADS, TAGS)) for it in ends)
        """Whether all refs are branches and tags at the remote."""

    def target(self, name: bytes) -> bytes:
        """Return the name at the remote of a ref of the store; empty if it stays."""
        if any(rule.applied(name) for rule in self._refused):
            return b""
        found = (target for rule in self._rules if (target := rule.applied(name)))
        return next(found, b"")

    def sources(self, target: bytes) -> list[bytes]:
        """Return the names in the store that could become ``target``."""
        found = self._sources.get(target)
        if found is None:
            names = [target, *(_inverse(rule, target) for rule in self._renames)]
            found = [name for name in names if name and self.target(name) == target]
            self._sources[target] = found
        return found

    def covers(self, target: bytes) -> bool:
        """Return whether a ref of the remote is where refs of the store go."""
        return target.startswith((HEADS, TAGS)) or bool(self.sources(target))


def _rule(pattern: bytes) -> _Rule:
    source, colon, target = pattern.partition(b":")
    source, target = _whole(source), _whole(target) if colon else b""
    if (
        not _PATTERN.fullmatch(source)
        or (colon and not _PATTERN.fullmatch(target))
        or (colon and source.count(b"*") != target.count(b"*"))
    ):
        raise error.InputError(
            _(b"invalid pattern '%s' of refs") % pattern,
            hint=_(b"examples: refs/heads/*, release/*, !wip/*, default:main"),
        )
    before, star, after = source.partition(b"*")
    expression = re.escape(before) + (b"(.+)" if star else b"") + re.escape(after)
    return _Rule(
        re.compile(expression, re.DOTALL),
        target if colon else None,
        before.startswith(_PRIVATE),
    )


def _whole(name: bytes) -> bytes:
    return name if name.startswith(b"refs/") else HEADS + name


def _inverse(rule: _Rule, target: bytes) -> bytes:
    """Return the name that ``rule`` would make into ``target``; empty if none."""
    assert rule.target is not None
    before, star, after = rule.target.partition(b"*")
    if not star:
        inner = b"" if target == rule.target else None
    elif target.startswith(before) and target.endswith(after):
        inner = target[len(before) : len(target) - len(after)]
    else:
        inner = None
    if inner is None:
        return b""
    pattern = re.sub(rb"\\(.)", rb"\1", rule.source.pattern)
    return pattern.replace(b"(.+)", inner)
