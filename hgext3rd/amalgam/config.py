"""The configuration, as the rest of the package reads it.

``configitems`` has the items, one row each. Here are parsers for their kinds, and the
records. Few others ask ``ui``: ``index.opening``, whether anything is set, and
``clonebundles``, about Mercurial's items.

Invalid values: ``GitConfig`` and ``ServeConfig`` raise ``ConfigError``. Records of
bundles and indexes warn once and use the default, because every command reads them;
``check`` raises before bundles are published. Switches of serving and pushing are off.
``mistakes`` finds all of them.
"""

from __future__ import annotations

import contextlib
import os
import re
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from mercurial import configitems, error, registrar, util
from mercurial.i18n import _

from .configitems import (
    DIALECTS,
    METADATA_DIALECT,
    MMAP_THRESHOLD,
    PLACE,
    ROWS,
)
from .records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mercurial.interfaces.types import UiT

    Mistake = Callable[[error.ConfigError], Any]
    R = TypeVar("R", bound=Record)

_LEAST_ALIKE = 0.7
"""Similarity by ``difflib`` for "did you mean". Names of a group begin alike, so it is
more than the 0.6 of Mercurial's commands."""
_LONGEST_SHOWN = 60
_warned: set[bytes] = set()


def warn_once(ui: UiT, text: bytes, hint: bytes | None = None) -> None:
    """Warn, unless this process has already printed the same warning."""
    if text not in _warned:
        _warned.add(text)
        from .terminal import one_line  # only for mistakes

        ui.warn(one_line(_(b"warning: %s") % text))
        if hint:
            ui.warn(one_line(b"(%s)" % hint))


def setting(ui: UiT, section: bytes, name: bytes) -> bytes | None:
    """Return the value of an item that others have, if it is set.

    Mercurial's developers are warned of items that nobody has registered.
    """
    value: bytes | None = dict(ui.configitems(section)).get(name)
    return value


def _refuse(mistake: error.ConfigError) -> NoReturn:
    raise mistake


def _ignore(_mistake: error.ConfigError) -> None:
    """Use the default; ``admin::amalgam`` names the mistake."""


def _warn(ui: UiT) -> Mistake:
    """Return a callback that warns of a mistake once."""
    return lambda mistake: warn_once(ui, mistake.message, mistake.hint)


# Kinds of values


class ValueKind:
    """Parser of values."""

    expected: bytes
    """Description of valid values, in messages and on the page."""

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return the value of ``item``; after ``mistake``, a safe one."""
        raise NotImplementedError


class OneOf(ValueKind):
    """One of some words."""

    def __init__(self, *allowed: bytes) -> None:
        self._allowed = allowed
        *first, last = allowed
        self.expected = b"%s or %s" % (b", ".join(first), last) if first else last

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return a word."""
        value = ui.config(item.section, item.name, untrusted=item.is_untrusted)
        if value in self._allowed:
            return value
        item.invalid(value, mistake, self._allowed)
        return item.default


class SomeOf(OneOf):
    """A list of some words."""

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return the valid words."""
        untrusted = item.is_untrusted
        values = ui.configlist(item.section, item.name, untrusted=untrusted)
        for value in values:
            if value not in self._allowed:
                item.invalid(value, mistake, self._allowed)
        return tuple(value for value in values if value in self._allowed)


class Boolean(ValueKind):
    """Yes or no."""

    expected = b"yes or no"

    def __init__(self, *instead: bool) -> None:
        self._instead = instead

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return a truth value, ``None`` if that is the default."""
        instead = self._instead[0] if self._instead else item.default
        return item.parsed(ui.configbool, ui, mistake, instead)


class Size(ValueKind):
    """A number of bytes."""

    def __init__(self, expected: bytes, least: int = 0, most: float = inf) -> None:
        self.expected = expected
        self._least, self._most = least, most

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return bytes, ``None`` if that is the default."""
        default = None if item.default is None else util.sizetoint(item.default)
        found = item.parsed(ui.configbytes, ui, mistake, default)
        if found is None or self._least <= found <= self._most:
            return found
        item.invalid(ui.config(item.section, item.name), mistake)
        return default


class Number(ValueKind):
    """A whole number with bounds."""

    def __init__(self, least: int = 0, most: float = inf) -> None:
        self._least, self._most = least, most
        self.expected = b"a number, at least %d" % least
        if most < inf:
            self.expected = b"a number from %d to %d" % (least, most)

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return the number."""
        found = item.parsed(ui.configint, ui, mistake, item.default)
        if self._least <= found <= self._most:
            return found
        item.invalid(b"%d" % found, mistake)
        return item.default


class Seconds(Number):
    """A number of seconds."""

    def __init__(self, least: int = 0) -> None:
        super().__init__(least)
        more = b", at least %d" % least if least else b""
        self.expected = b"a number of seconds" + more


class Url(ValueKind):
    """A web address, or an object store if ``stores`` describes them."""

    def __init__(self, expected: bytes, stores: bytes = b"") -> None:
        self.expected = expected
        self._stores = stores

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return it without a slash at its end; empty if unset."""
        value: bytes = ui.config(item.section, item.name) or b""
        found = value.rstrip(b"/")
        if found and self._stores and re.fullmatch(self._stores, found):
            return found
        if value and not value.startswith((b"http://", b"https://")):
            # before an "@" there may be a password
            item.invalid(b"..." if b"@" in value else value, mistake)
            return b""
        return found


class Path(ValueKind):
    """A path, relative to the directory of the file that sets it."""

    expected = b"a path"

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return an absolute path, ``None`` if unset or empty.

        Setting it in an untrusted file is a mistake: its user would look for the files
        in another place than hg.
        """
        trusted = ui.config(item.section, item.name)
        if ui.config(item.section, item.name, untrusted=True) != trusted:
            text = _(b"%s.%s is set in a file that is not trusted")
            hint = _(b"see 'hg help config.trusted'")
            mistake(error.ConfigError(text % (item.section, item.name), hint=hint))
        if not trusted:
            return None
        return os.path.abspath(ui.configpath(item.section, item.name))


class Program(ValueKind):
    """The name or path of a program."""

    expected = b"the name or path of a program"

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return it with variables expanded."""
        value: bytes = ui.config(item.section, item.name)
        if not value:
            item.invalid(value, mistake)
        return util.expandpath(value)


class Text(ValueKind):
    """Any text."""

    def __init__(self, expected: bytes = b"a text") -> None:
        self.expected = expected

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return it as one line, empty if unset."""
        value = ui.config(item.section, item.name, untrusted=item.is_untrusted)
        return b" ".join((value or b"").split())


class Words(ValueKind):
    """A list of words."""

    def __init__(self, expected: bytes) -> None:
        self.expected = expected

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return the words."""
        return tuple(ui.configlist(item.section, item.name))


# Items


class Item:
    """A row of the table."""

    __slots__ = ("default", "help", "is_untrusted", "kind", "name", "row", "section")

    def __init__(
        self,
        name: bytes,
        kind: tuple[Any, ...],
        default: Any,
        is_untrusted: bool = False,
        text: bytes = b"",
    ) -> None:
        self.section, _dot, self.name = name.partition(b".")
        self.row = (name, kind, default, is_untrusted, text)
        self.kind: ValueKind = globals()[kind[0]](*kind[1:])
        self.default = default
        self.help = text
        self.is_untrusted = is_untrusted

    @property
    def group(self) -> bytes:
        """The first part of the name; the section for items of other sections."""
        if self.section == b"amalgam":
            return self.name.partition(b".")[0]
        return {b"clone-bundles": b"bundles", b"experimental": b"index"}[self.section]

    def named(self, place: bytes) -> Item:
        """Return the item that has ``place`` where users choose a name."""
        name, *rest = self.row
        return Item(name.replace(PLACE, place), *rest)

    def read(self, ui: UiT, mistake: Mistake) -> Any:
        """Return the value, or a safe one after calling ``mistake``."""
        return self.kind.read(ui, self, mistake)

    def parsed(
        self, parse: Callable[..., Any], ui: UiT, mistake: Mistake, instead: Any
    ) -> Any:
        """Return the value that ``parse`` of ``ui`` returns, or ``instead``."""
        try:
            found = parse(self.section, self.name, untrusted=self.is_untrusted)
            # those with a name of the user's have no default in Mercurial's table
            return self.default if found is None else found
        except error.ConfigError:
            untrusted = self.is_untrusted
            self.invalid(
                ui.config(self.section, self.name, untrusted=untrusted), mistake
            )
            return instead

    def invalid(
        self, value: bytes, mistake: Mistake, allowed: Sequence[bytes] = ()
    ) -> None:
        """Report an invalid value."""
        text = _(b"invalid value '%s' for %s.%s (expected %s)")
        text %= (_shown(value), self.section, self.name, self.kind.expected)
        near = _nearest(value, allowed)
        hint = _(b"did you mean '%s'?") % near if near else None
        mistake(error.ConfigError(text, hint=hint))


ITEMS = [Item(*values) for values in ROWS]
"""The rows, in the order of the page."""
_BY_NAME = {b"%s.%s" % (item.section, item.name): item for item in ITEMS}


def row(name: bytes) -> Any:
    """Return the item of a row, by section and name."""
    return _BY_NAME[name]


def _read(record: type[R], ui: UiT, mistake: Mistake, group: bytes = b"") -> R:
    """Return a ``record`` whose fields are rows; ``group``: find its unknown items."""
    if group:
        for found, unknown in _unknown_items(ui):
            if found == group:
                mistake(unknown)
    rows = record._field_defaults.values()
    return record(*[item.read(ui, mistake) for item in rows])


# A record has a field for each row that it reads.


class GitConfig(Record):
    """The git store; a mistake is a ``ConfigError``."""

    export: bytes = row(b"amalgam.git.export")
    export_on_change: bool = row(b"amalgam.git.export-on-change")
    refs: tuple[bytes, ...] = row(b"amalgam.git.refs")
    dialect: bytes = row(b"amalgam.git.dialect")
    check_texts: bool = row(b"amalgam.git.check-texts")
    memory_bytes: int = row(b"amalgam.git.memory")
    max_pull_bytes: int = row(b"amalgam.git.max-pull")
    max_pull_commits: int = row(b"amalgam.git.max-pull-commits")
    max_pull_file_bytes: int = row(b"amalgam.git.max-pull-file")
    path: bytes | None = row(b"amalgam.git.path")
    program: bytes = row(b"amalgam.git.program")
    hggit_files: bool = row(b"amalgam.git.hggit-files")

    @property
    def keeps_metadata(self) -> bool:
        """Whether the dialect has metadata of git-cinnabar beside its commits."""
        return self.dialect == METADATA_DIALECT

    @classmethod
    def from_ui(cls, ui: UiT, dialect: bytes = b"") -> GitConfig:
        """Read the items, with ``dialect`` instead of the configured one if given."""
        if dialect and dialect not in DIALECTS:
            raise error.InputError(
                _(b"unknown dialect '%s'") % dialect,
                hint=_(b"allowed: %s") % b", ".join(DIALECTS),
            )
        config = _read(cls, ui, _refuse, b"git")
        return config._replace(dialect=dialect) if dialect else config


_SERVE: Item = row(b"amalgam.git.serve")


class PushConfig(Record):
    """Pushes of git clients; after a mistake, they are refused."""

    push: bytes = row(b"amalgam.git.push")
    may_branch: bool = row(b"amalgam.git.push-branches")
    is_exact: bool = row(b"amalgam.git.push-exact")
    may_tag: bool = row(b"amalgam.git.push-tags")
    message: bytes = row(b"amalgam.git.push-message")

    @classmethod
    def from_ui(cls, ui: UiT) -> PushConfig:
        """Read the items."""
        return _read(cls, ui, _ignore)


class BundlesConfig(Record):
    """Generation and hosting of bundles; a mistake is warned of once."""

    formats: tuple[bytes, ...] = row(b"clone-bundles.git.formats")
    directory: bytes | None = row(b"amalgam.bundles.directory")
    place: bytes = row(b"amalgam.bundles.url")
    public_url: bytes = row(b"amalgam.bundles.public-url")
    link_seconds: int = row(b"amalgam.bundles.link-seconds")
    retention_seconds: int = row(b"amalgam.bundles.retention")
    external: bool | None = row(b"amalgam.bundles.external")

    @property
    def url(self) -> bytes:
        """The URL of the directory; empty if only hgweb serves it, or for a store."""
        return self.place if self.place.startswith(b"http") else b""

    @property
    def store(self) -> bytes:
        """The object store (``STORE``), or empty."""
        return b"" if self.place.startswith(b"http") else self.place

    @classmethod
    def from_ui(cls, ui: UiT) -> BundlesConfig:
        """Read the items."""
        return _read(cls, ui, _warn(ui), b"bundles")

    @classmethod
    def check(cls, ui: UiT) -> None:
        """Raise ``ConfigError`` for a mistake, before bundles are published."""
        _read(cls, ui, _refuse, b"bundles")


_NATIVE: Item = row(b"amalgam.bundles.native")


class CompressionConfig(Record):
    """Compression of bundles; a mistake is warned of once."""

    level: int = row(b"amalgam.bundles.level")
    threads: int = row(b"amalgam.bundles.threads")
    window_bytes: int = row(b"amalgam.bundles.window")

    @classmethod
    def from_ui(cls, ui: UiT) -> CompressionConfig:
        """Read the items."""
        return _read(cls, ui, _warn(ui))

    @classmethod
    def check(cls, ui: UiT) -> None:
        """Raise ``ConfigError`` for a mistake, before bundles are published."""
        _read(cls, ui, _refuse)


class ServeConfig(Record):
    """Limits of serving git; a mistake is a ``ConfigError``."""

    freshness: int = row(b"amalgam.serve.freshness")
    max_fetches: int = row(b"amalgam.serve.max-fetches")
    run_directory: bytes | None = row(b"amalgam.serve.run-directory")
    queue_seconds: int = row(b"amalgam.serve.queue-timeout")
    lag_seconds: int = row(b"amalgam.serve.replication-lag")
    quiet_seconds: int = row(b"amalgam.serve.timeout")
    least_speed: int = row(b"amalgam.serve.min-speed")
    max_body_bytes: int = row(b"amalgam.serve.max-body")
    max_push_bytes: int = row(b"amalgam.serve.max-push")
    max_push_objects: int = row(b"amalgam.serve.max-push-objects")
    max_push_commits: int = row(b"amalgam.serve.max-push-commits")
    max_push_file_bytes: int = row(b"amalgam.serve.max-push-file")
    bundle_uri: bool = row(b"amalgam.serve.bundle-uri")

    @classmethod
    def from_ui(cls, ui: UiT) -> ServeConfig:
        """Read the items."""
        return _read(cls, ui, _refuse, b"serve")


class ReplicaConfig(Record):
    """A git remote to replicate to; a mistake is a ``ConfigError``."""

    url: bytes = row(b"amalgam.replicate.NAME")
    patterns: tuple[bytes, ...] = row(b"amalgam.replicate.NAME.refs")
    on_change: bool = row(b"amalgam.replicate.NAME.on-change")
    prune: bool = row(b"amalgam.replicate.NAME.prune")
    options: tuple[bytes, ...] = row(b"amalgam.replicate.NAME.options")
    most_commits: int = row(b"amalgam.replicate.NAME.slice")
    most_tags: int = row(b"amalgam.replicate.NAME.tags-per-push")
    quiet_seconds: int = row(b"amalgam.replicate.NAME.timeout")
    hides_refs: bool = row(b"amalgam.replicate.NAME.hide-refs")

    @classmethod
    def from_ui(cls, ui: UiT, name: bytes) -> ReplicaConfig:
        """Read the items of the remote ``name``, which need not be configured."""
        rows = cls._field_defaults.values()
        return cls(*[item.named(name).read(ui, _refuse) for item in rows])


class FollowConfig(Record):
    """A git repository to follow; a mistake is a ``ConfigError``."""

    url: bytes = row(b"amalgam.follow.NAME")
    patterns: tuple[bytes, ...] = row(b"amalgam.follow.NAME.refs")
    interval_seconds: int = row(b"amalgam.follow.NAME.interval")

    @classmethod
    def from_ui(cls, ui: UiT, name: bytes) -> FollowConfig:
        """Read the items of the repository ``name``, which need not be configured."""
        rows = cls._field_defaults.values()
        return cls(*[item.named(name).read(ui, _refuse) for item in rows])


_REMOTE = re.compile(rb"(replicate|follow)\.([A-Za-z0-9_-]+)")
# Mercurial compiles the expression, which a command that reads no such item can spare.
_of_remotes: dict[bytes, Any] = {}
registrar.configitem(_of_remotes)(
    b"amalgam", rb"(replicate|follow)\.", default=None, generic=True
)
configitems.coreitems.setdefault(b"amalgam", configitems.itemregister()).update(
    _of_remotes[b"amalgam"]
)


def replicas(ui: UiT) -> list[bytes]:
    """Return the names of the remotes to replicate to, in the order of the files."""
    return _remotes(ui, b"replicate")


def followed(ui: UiT) -> list[bytes]:
    """Return the names of the git repositories to follow, in the order of the files."""
    return _remotes(ui, b"follow")


@contextlib.contextmanager
def remote_of(item: bytes, url: bytes) -> Iterator[None]:
    """Look at the remote ``url`` that ``item`` sets; the context parses it.

    ``ConfigError`` without one, and in place of an ``InputError``.
    """
    if not url:
        raise error.ConfigError(
            _(b"%s is not set") % item,
            hint=_(b"set it to the URL of a git repository, in a trusted file"),
        )
    try:
        yield
    except error.InputError as exc:
        text = b"%s: %s" % (item, exc.message)
        raise error.ConfigError(text, hint=exc.hint) from None


def _remotes(ui: UiT, group: bytes) -> list[bytes]:
    items = ui.configitems(b"amalgam")
    found = ((_REMOTE.fullmatch(name), value) for name, value in items)
    return [it[2] for it, value in found if it and it[1] == group and value]


def _named(ui: UiT) -> Iterator[Item]:
    """Yield the items of remotes, with the names that the user has chosen."""
    for item in ITEMS:
        if PLACE in item.name:
            yield from (item.named(it) for it in _remotes(ui, item.group))


def on_change_replicas(ui: UiT) -> list[bytes]:
    """Return those that follow each change; after a mistake in an item, it does not."""
    item = ReplicaConfig._field_defaults["on_change"]
    return [it for it in replicas(ui) if item.named(it).read(ui, _ignore)]


_MMAPINDEX: Item = row(b"experimental.mmapindex")
_THRESHOLD: Item = row(b"experimental.mmapindexthreshold")
_PREFAULT: Item = row(b"amalgam.index.prefault")
_NODE_MAP: Item = row(b"amalgam.index.node-map")
# Mercurial's own
_STOCK_THRESHOLD = b".".join(MMAP_THRESHOLD)
_STOCK = _STOCK_THRESHOLD.partition(b":")[0]


class IndexConfig(Record):
    """Memory mapping of changelog and manifest indexes; a mistake is warned of once."""

    threshold_bytes: int | None
    """Indexes of at least this size are mapped; ``None``: no index is."""
    item: bytes
    """The config item that decided: a threshold, or the item that disabled mapping."""
    prefault: bytes = b"none"
    """One of ``PREFAULTS``."""

    @classmethod
    def from_ui(cls, ui: UiT, stock_threshold_bytes: int | None) -> IndexConfig:
        """Read the items; ``stock_threshold_bytes``: the result of Mercurial's own."""
        return cls._read(ui, _warn(ui), stock_threshold_bytes)

    @classmethod
    def _read(cls, ui: UiT, mistake: Mistake, stock: int | None) -> IndexConfig:
        for group, unknown in _unknown_items(ui):
            if group == b"index":
                mistake(unknown)
        prefault = _PREFAULT.read(ui, mistake)
        threshold, item = cls._threshold(ui, mistake, stock)
        return cls(threshold, item, prefault)

    @staticmethod
    def _threshold(
        ui: UiT, mistake: Mistake, stock: int | None
    ) -> tuple[int | None, bytes]:
        wanted = _MMAPINDEX.read(ui, mistake)
        threshold = _THRESHOLD.read(ui, mistake)
        if wanted is False:
            return None, b"experimental.mmapindex"
        if threshold is not None:
            return threshold, b"experimental.mmapindexthreshold"
        if wanted:
            size = ("Size", _THRESHOLD.kind.expected)
            least = Item(_STOCK_THRESHOLD, size, b"1 MB").read(ui, mistake)
            return least, _STOCK_THRESHOLD
        return (None, _STOCK) if stock is None else (stock, _STOCK_THRESHOLD)


def wants_serve(ui: UiT) -> bool:
    """Return ``amalgam.git.serve``; after a mistake, no."""
    return bool(_SERVE.read(ui, _ignore))


def wants_export_on_change(ui: UiT) -> bool:
    """Return whether exports follow each change; after a mistake, no."""
    item = GitConfig._field_defaults["export_on_change"]
    return bool(item.read(ui, _ignore) or on_change_replicas(ui))


def wants_node_map(ui: UiT) -> bool:
    """Return ``amalgam.index.node-map``; after a warning, yes."""
    return bool(_NODE_MAP.read(ui, _warn(ui)))


def wants_native_bundles(ui: UiT) -> bool:
    """Return ``amalgam.bundles.native``; after a warning, yes."""
    return bool(_NATIVE.read(ui, _warn(ui)))


def mistakes(ui: UiT) -> list[error.ConfigError]:
    """Return all mistakes in the configuration of amalgam, unknown items first."""
    found: dict[bytes, error.ConfigError] = {}

    def mistake(exc: error.ConfigError) -> None:
        found.setdefault(exc.message, exc)

    for _group, unknown in _unknown_items(ui):
        mistake(unknown)
    for item in (*(it for it in ITEMS if PLACE not in it.name), *_named(ui)):
        item.read(ui, mistake)
    IndexConfig._read(ui, mistake, None)
    return list(found.values())


def _unknown_items(ui: UiT) -> Iterator[tuple[bytes, error.ConfigError]]:
    """Yield items that are set and not in the table, with their probable group.

    The section ``amalgam`` is ours, and the prefix ``git.`` of ``clone-bundles``.
    """
    for section, only in ((b"amalgam", b""), (b"clone-bundles", b"git.")):
        prefix = section + b"."
        names = {
            name.removeprefix(prefix)
            for name, *_rest in ROWS
            if name.startswith(prefix) and PLACE not in name
        }
        if not only:
            names |= {item.name for item in _named(ui)}
        for name, _value in ui.configitems(section, untrusted=True):
            if name in names or not name.startswith(only):
                continue
            text = _(b"unknown config item %s.%s") % (section, _shown(name))
            near = _nearest(name, names)
            hint = _(b"see 'hg help config.amalgam' for all items")
            if near:
                hint = _(b"did you mean %s.%s?") % (section, near)
            group = (b"bundles" if only else name).partition(b".")[0]
            if not any(item.group == group for item in ITEMS):
                group = near.partition(b".")[0]
            yield group, error.ConfigError(text, hint=hint)


def _nearest(value: bytes, allowed: Iterable[bytes]) -> bytes:
    """Return the name most similar to ``value``; empty if none is similar."""
    import difflib  # only for mistakes

    names = [os.fsdecode(name) for name in allowed]
    value = value[:_LONGEST_SHOWN].lower()
    near = difflib.get_close_matches(os.fsdecode(value), names, 1, _LEAST_ALIKE)
    return os.fsencode(near[0]) if near else b""


def _shown(value: bytes) -> bytes:
    """Return a value for terminals: one line, shortened."""
    from .terminal import printable  # only for mistakes

    line = printable(value)
    return line if len(line) <= _LONGEST_SHOWN else line[:_LONGEST_SHOWN] + b"..."
