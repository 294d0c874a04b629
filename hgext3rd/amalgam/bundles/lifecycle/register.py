"""The bundle register: what is known of each bundle that was published.

JSON in ``.hg/amalgam/bundles/register``. The generator replaces it as a whole
(``generator``), and everybody reads it. It says more of a bundle than the state file of
Mercurial's extension has room for. A bundle that is no longer advertised stays in it
while others may still download it.

Others may have edited it, so each field is checked when it is read.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ...loading import load
from ...placement import Directory, Placement
from ...terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mercurial.interfaces.types import RepoT

NAME = re.compile(rb"[0-9a-f]{64}\.(?:bundle|hg)")
"""What a bundle is named: after the SHA-256 of its content, and after its reader."""
HERE = "."
"""The path of bundles that are in the directory of the register."""
_FILE = b"register"
_VERSION = 1
_LIMIT_BYTES = 4 << 20
"""Some 5,000 bundles. What a web server parses must not fill its memory."""
_MOST_DIGITS = 20
_LATEST = 1e11  # seconds since the epoch: no clock of ours is beyond


@dataclasses.dataclass(slots=True)
class Entry:
    """A bundle that was made."""

    name: str
    """SHA-256 of its content, with a suffix."""
    type: str
    url: str
    """Where clients find it; relative to the URL of the repository if it serves it."""
    path: str
    """The directory it was put in, ``HERE`` for that of the register; empty if it was
    uploaded."""
    bytes: int
    changesets: int
    """Those in it, without what an increment builds upon."""
    revs: int
    """Revisions of the repository when it was made, as Mercurial's triggers count."""
    tip_rev: int
    tip_node: str
    heads: str
    """The set of what it was made for, with what it builds upon (``headset``)."""
    made: float
    """Seconds since the epoch."""
    reached: str = ""
    """The set of what git finds in it, if it is for git, with what it builds upon: of a
    branch with several heads, only one has a name."""
    token: int = 0
    """Its creation token, if it is for git."""
    follows: int = 0
    """The token of the bundle that an increment builds upon."""
    window_bytes: int = 0
    """What a client of Mercurial has to keep in memory to decompress it."""
    retired: float | None = None
    """Since when it is retained without being advertised; ``None`` if it is advertised,
    or must go without delay."""
    mark: str = ""
    """The mark of censorings (``censorship``) from before it was made."""


@dataclasses.dataclass(slots=True)
class Register:
    """All that is known of the bundles of a repository."""

    entries: dict[str, Entry] = dataclasses.field(default_factory=dict)
    """By name."""
    last_token: int = 0
    """The largest creation token that any client was ever given."""
    cinnabar_manifests: list[str] = dataclasses.field(default_factory=list)
    """SHA-256 of what amalgam wrote, or was about to write, to its manifest."""
    uploaded_list: str = ""
    """SHA-256 of the list of bundles that was uploaded last."""
    others: dict[str, str] = dataclasses.field(default_factory=dict)
    """Such marks of bundles that Mercurial's extension publishes itself, by name; none
    for those made before the first censoring."""
    failure: str = ""
    """Why the last generation failed; empty if it did not."""

    @classmethod
    def read(cls, repo: RepoT) -> Register:
        """Return what is known; nothing if there never was a bundle.

        ``StorageError``, and nothing else, if the register cannot be read.
        """
        load(json)
        directory = directory_of(repo)
        try:
            content = directory.tryread(_FILE, _LIMIT_BYTES)
            return cls._parse(content) if content else cls()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            problem = _(b"is damaged")
        except OSError as exc:
            problem = _(b"cannot be read: %s") % (exc.strerror or "").encode()
        raise error.StorageError(
            _(b"bundle register '%s' %s") % (printable(directory.join(_FILE)), problem),
            hint=_(b"remove it, and run 'hg admin::clone-bundles-clear'"),
        )

    @classmethod
    def _parse(cls, content: bytes) -> Register:
        known = json.loads(content, parse_int=_integer, parse_constant=_refuse)
        if known.pop("version") != _VERSION:
            raise ValueError("version")
        entries = [_entry(fields) for fields in known.pop("entries")]
        found = cls({entry.name: entry for entry in entries}, **known)
        found._check()
        return found

    def _check(self) -> None:
        """Raise ``ValueError`` if a field has a value that amalgam never writes."""
        for entry in self.entries.values():
            _check(entry, _ENTRY)
        _check(self, _REGISTER)

    @classmethod
    def read_for_client(cls, repo: RepoT) -> Register | None:
        """Return what is known; ``None`` if it is damaged.

        Clients can do without bundles, and the operator is told elsewhere.
        """
        try:
            return cls.read(repo)
        except error.StorageError:
            return None

    def write(self, repo: RepoT) -> None:
        """Write it. Only for generators."""
        self._check()
        known: dict[str, Any] = dataclasses.asdict(self)
        known["entries"] = list(known["entries"].values())
        text = json.dumps({"version": _VERSION, **known}, indent=1, sort_keys=True)
        if len(text) >= _LIMIT_BYTES:
            raise error.StateError(
                _(b"too many bundles are kept: %d") % len(self.entries),
                hint=_(b"set amalgam.bundles.retention to a shorter time"),
            )
        directory, placement = directory_of(repo), Placement.of(repo)
        directory.make(placement)
        directory.replace(_FILE, text.encode() + b"\n", placement)


def directory_of(repo: RepoT) -> Directory:
    """Return the directory of the register, which need not be there.

    It belongs to a repository, not to a store: as does the state of Mercurial's
    extension, of which shares have their own.
    """
    return Directory(repo.path, (b"amalgam", b"bundles"))


def _entry(fields: dict[str, Any]) -> Entry:
    """Return an entry, also one with the fields that it had before 0.1.0."""
    fields.pop("left", None)
    if fields.pop("at_once", False):
        fields["retired"] = None
    return Entry(**fields)


def is_address(url: str) -> bool:
    """Tell whether ``url`` can be in a manifest: no space or line feed is in it."""
    return _URL.fullmatch(url) is not None and _is_encodable(url)


_URL = re.compile(r"[^\x00-\x20\x7f]{0,4000}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NODE = re.compile(r"[0-9a-f]{40}")
_TYPE = re.compile(r"[!-~]{1,200}")
_PATH = re.compile(r"|\.|/[^\0]{0,4095}")


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, str)
        and pattern.fullmatch(value) is not None
        and _is_encodable(value)
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _is_time(value: Any) -> bool:
    is_number = type(value) in (int, float)
    return is_number and math.isfinite(value) and 0 <= value < _LATEST


_is_mark = _matches(re.compile(r"(?:[0-9a-f]{32})?"))
_is_digest_or_empty = _matches(re.compile(r"(?:[0-9a-f]{64})?"))

_ENTRY: Mapping[str, Callable[[Any], bool]] = {
    "name": _matches(re.compile(NAME.pattern.decode())),
    "type": _matches(_TYPE),
    "url": _matches(_URL),
    "path": _matches(_PATH),
    "bytes": _is_count,
    "changesets": _is_count,
    "revs": _is_count,
    "tip_rev": lambda value: _is_count(value) or (type(value) is int and value == -1),
    "tip_node": _matches(_NODE),
    "heads": _matches(_DIGEST),
    "made": _is_time,
    "reached": _is_digest_or_empty,
    "token": _is_count,
    "follows": _is_count,
    "window_bytes": _is_count,
    "retired": lambda value: value is None or _is_time(value),
    "mark": _is_mark,
}
_REGISTER: Mapping[str, Callable[[Any], bool]] = {
    "last_token": _is_count,
    "cinnabar_manifests": lambda value: (
        type(value) is list and all(map(_matches(_DIGEST), value))
    ),
    "uploaded_list": _is_digest_or_empty,
    "others": lambda value: type(value) is dict and all(map(_is_mark, value.values())),
    "failure": lambda value: isinstance(value, str) and _is_encodable(value),
}


def _check(record: Any, checks: Mapping[str, Callable[[Any], bool]]) -> None:
    for field, is_valid in checks.items():
        if not is_valid(getattr(record, field)):
            raise ValueError(field)


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:  # Python takes long for thousands
        raise ValueError("number")
    return int(digits)


def _refuse(name: str) -> None:
    raise ValueError(name)
