"""``.gitignore`` in the working directory of a user of hg-git.

It counts if there is no ``.hgignore`` at the root. Each directory's file is read when a
path below it is first asked about, so a status walks the directories once, and none
that is ignored. Patterns are git's (gitignore(5)), but those that begin with ``!``:
Mercurial has no exceptions, so they are named and passed over. So are those that could
keep a regular expression busy for ever: anybody may have written the file.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from typing import TYPE_CHECKING, Any

from mercurial import dirstate as dirstates, error, match as matching, util
from mercurial.i18n import _

from ..records import Record
from ..terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mercurial.interfaces.types import RepoT

_NAME = b".gitignore"
_HGIGNORE = b".hgignore"
_MOST_BYTES = 1 << 18
_MOST_WILDCARDS = 3
"""In one component of a pattern, and of components ``**``. Each multiplies the time to
find out that a name of 255 bytes does not match, by up to 85."""


class _Rule(Record):
    number: int
    """Of its line, from 1."""
    line: bytes
    patterns: tuple[bytes, ...]
    """Mercurial's, for paths from the directory of the file."""


class _File(Record):
    rules: tuple[_Rule, ...]
    matches: Any
    """Matches by any of the rules, with one regular expression for all."""


class _GitIgnored(matching.basematcher):
    """Matches paths that ``.hgignore`` rules of others or ``.gitignore`` ignore."""

    def __init__(self, dirstate: Any, others: Any) -> None:
        super().__init__()
        self._dirstate = dirstate
        self._others = others
        self._files: dict[bytes, _File | None] = {}

    def __repr__(self) -> str:
        return f"<gitignored {self._others!r}>"

    def matchfn(self, path: bytes) -> bool:
        """Return whether a file or directory is ignored."""
        return bool(self._others(path)) or self._find(path) is not None

    def rule(self, path: bytes) -> tuple[bytes, _Rule] | None:
        """Return the first rule for a path, with the path of its file."""
        found = self._find(path)
        if found is None:
            return None
        directory, file, rest = found
        for rule in file.rules:
            if self._compiled(rule.patterns)(rest):
                return directory + _NAME, rule
        raise error.ProgrammingError(b"no rule matches " + path)

    def _find(self, path: bytes) -> tuple[bytes, _File, bytes] | None:
        """Return the directory of a file that ignores a path, it, and the rest."""
        directory, rest = b"", path
        while True:
            file = self._file(directory)
            if file is not None and file.matches(rest):
                return directory, file, rest
            first, slash, rest = rest.partition(b"/")
            if not slash:
                return None
            directory += first + slash

    def _file(self, directory: bytes) -> _File | None:
        if directory not in self._files:
            path = directory + _NAME
            rules = [*self._read(path)]
            try:
                matches = self._compiled_rules(rules)
            except error.Abort:
                rules = [rule for rule in rules if self._is_valid(path, rule)]
                matches = self._compiled_rules(rules)
            file = _File((*rules,), matches) if rules else None
            self._files[directory] = file
        return self._files[directory]

    def _compiled(self, patterns: Sequence[bytes]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of "[["
            return matching.match(self._dirstate._root, b"", [], [*patterns])

    def _compiled_rules(self, rules: Sequence[_Rule]) -> Any:
        return self._compiled([it for rule in rules for it in rule.patterns])

    def _is_valid(self, path: bytes, rule: _Rule) -> bool:
        try:
            self._compiled(rule.patterns)
        except error.Abort:
            self._refuse(path, rule.line)
            return False
        return True

    def _refuse(self, path: bytes, line: bytes) -> None:
        text = _(b"%s: unsupported ignore pattern '%s'")
        shown = text % (self._dirstate.pathto(path), line)
        self._dirstate._ui.warn(one_line(shown))

    def _read(self, path: bytes) -> Iterator[_Rule]:
        ui, root = self._dirstate._ui, self._dirstate._root
        full = os.path.join(root, path)
        try:
            # git obeys no links there, either
            if not stat.S_ISREG(os.lstat(full).st_mode):
                return
            with open(full, "rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except OSError:
            return
        if len(content) > _MOST_BYTES:
            text = _(b"%s: not obeyed, because it is larger than %s")
            shown = self._dirstate.pathto(path), util.bytecount(_MOST_BYTES)
            ui.warn(one_line(text % shown))
            return
        for number, line in enumerate(content.splitlines(), 1):
            line = line.rstrip()
            if not line or line.startswith(b"#"):
                continue
            if _is_supported(line):
                yield _Rule(number, line, (*_patterns(line),))
            else:
                self._refuse(path, line)


def _is_supported(line: bytes) -> bool:
    parts = line.split(b"/")
    if line.startswith(b"!") or b"[:" in line or parts.count(b"**") > _MOST_WILDCARDS:
        return False
    return all(len(re.findall(rb"\*+", part)) <= _MOST_WILDCARDS for part in parts)


def _patterns(line: bytes) -> Iterator[bytes]:
    """Yield patterns of Mercurial for a line of git."""
    if line.startswith((b"\\#", b"\\!")):
        line = line[1:]
    # alternatives are Mercurial's only
    pattern = line.replace(b"{", b"\\{").replace(b"}", b"\\}")
    yield b"rootglob:" + pattern.lstrip(b"/")
    if b"/" not in pattern.rstrip(b"/"):
        yield b"rootglob:**/" + pattern


def read_in(repo: RepoT) -> None:
    """Let the working directory of ``repo`` obey ``.gitignore``."""

    class ignoringrepo(repo.__class__):  # noqa: N801
        """Has a dirstate that does."""

        def _makedirstate(self) -> Any:
            dirstate = super()._makedirstate()
            dirstate.__class__ = _ignoring(dirstate.__class__)
            return dirstate

    repo.__class__ = ignoringrepo


def _ignoring(base: Any) -> Any:
    class ignoringdirstate(base):  # noqa: N801
        """Obeys ``.gitignore`` without an ``.hgignore`` at the root."""

        @dirstates.rootcache(_HGIGNORE)
        def _ignore(self) -> Any:
            others = super()._ignore
            if os.path.lexists(self._join(_HGIGNORE)):
                return others
            return _GitIgnored(self, others)

        def _ignorefileandline(self, path: bytes) -> tuple[bytes | None, int, bytes]:
            found: tuple[bytes | None, int, bytes] = super()._ignorefileandline(path)
            ignored = self._ignore
            if found[0] is None and isinstance(ignored, _GitIgnored):
                rule = ignored.rule(path)
                if rule:
                    return rule[0], rule[1].number, rule[1].line
            return found

        def _rust_status(self, *args: Any, **kwargs: Any) -> Any:
            if os.path.lexists(self._join(_HGIGNORE)):
                return super()._rust_status(*args, **kwargs)
            raise dirstates.rustmod.FallbackError

    return ignoringdirstate
