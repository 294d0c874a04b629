"""The table of configuration items, and the records that the package reads.

One ``row`` per item: name, kind with its bounds, default, help, trust. Mercurial's
``configtable``, the records below, ``hg help config.amalgam`` and the tables of
``docs/configuration.rst`` (``make config-page``) come from it. Nothing else asks
``ui``, except ``hooks``, which looks for ``clone-bundles.git.formats``.

Invalid values: ``GitConfig`` and ``ServeConfig`` raise ``ConfigError``. Records of
bundles and indexes warn once and use the default, because every command reads them;
``check`` raises before bundles are published. Switches of serving and pushing are off.
``mistakes`` finds all of them.
"""

from __future__ import annotations

import os
import re
import sys
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from mercurial import error, extensions, registrar, util
from mercurial.i18n import _

from .records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mercurial.interfaces.types import UiT

    Mistake = Callable[[error.ConfigError], Any]
    R = TypeVar("R", bound=Record)

GIT_FORMATS = GIT_V2, CINNABAR_V1 = (b"git-v2", b"cinnabar-v1")
METADATA_DIALECT = b"cinnabar"
"""The dialect whose commits have git-cinnabar's ids, and its metadata beside them."""
DIALECTS = (METADATA_DIALECT,)
"""All dialects, as the core names them (``rust/capi/src/jobs.rs``)."""
PREFAULTS = (b"none", b"willneed", b"populate")
STORE = (
    rb"(?:s3|gs|az)://[a-z0-9][a-z0-9._-]{1,254}"
    rb"(?:/[A-Za-z0-9_=+-][A-Za-z0-9._=+-]{0,200}){0,20}"
)
"""An object store: its kind, a bucket, and a prefix. It has no place for a password."""

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

    expected = b"a text"

    def read(self, ui: UiT, item: Item, mistake: Mistake) -> Any:
        """Return it as one line, empty if unset."""
        value = ui.config(item.section, item.name, untrusted=item.is_untrusted)
        return b" ".join((value or b"").split())


# Items


class Item:
    """A row of the table."""

    __slots__ = ("default", "help", "is_untrusted", "kind", "name", "section")

    def __init__(
        self,
        name: bytes,
        kind: ValueKind,
        default: Any,
        text: bytes = b"",
        *,
        untrusted: bool = False,
    ) -> None:
        self.section, _dot, self.name = name.partition(b".")
        self.kind = kind
        self.default = default
        self.help = text
        self.is_untrusted = untrusted

    @property
    def group(self) -> bytes:
        """The first part of the name; the section for items of other sections."""
        if self.section == b"amalgam":
            return self.name.partition(b".")[0]
        return {b"clone-bundles": b"bundles", b"experimental": b"index"}[self.section]

    def read(self, ui: UiT, mistake: Mistake) -> Any:
        """Return the value, or a safe one after calling ``mistake``."""
        return self.kind.read(ui, self, mistake)

    def parsed(
        self, parse: Callable[..., Any], ui: UiT, mistake: Mistake, instead: Any
    ) -> Any:
        """Return the value that ``parse`` of ``ui`` returns, or ``instead``."""
        try:
            return parse(self.section, self.name, untrusted=self.is_untrusted)
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


configtable: dict[bytes, dict[bytes, Any]] = {}
ITEMS: list[Item] = []
"""The rows, in the order of the page."""
_configitem = registrar.configitem(configtable)


def row(
    name: bytes, kind: ValueKind, default: Any, text: bytes, *, untrusted: bool = False
) -> Any:
    """Add an item to the table.

    ``name``: section and item. ``text``: its help, in reStructuredText.
    ``untrusted``: whether the ``.hg/hgrc`` of an untrusted owner counts, which is for
    choices of that owner that name no path, program or limit.
    """
    item = Item(name, kind, default, text, untrusted=untrusted)
    ITEMS.append(item)
    shown = (lambda: list(default)) if isinstance(default, tuple) else default
    _configitem(item.section, item.name, default=shown)
    return item


def _read(record: type[R], ui: UiT, mistake: Mistake, group: bytes = b"") -> R:
    """Return a ``record`` whose fields are rows; ``group``: find its unknown items."""
    if group:
        for found, unknown in _unknown_items(ui):
            if found == group:
                mistake(unknown)
    rows = record._field_defaults.values()
    return record(*[item.read(ui, mistake) for item in rows])


# The table. A record has a field for each row.


class GitConfig(Record):
    """The git store; a mistake is a ``ConfigError``."""

    export: bytes = row(
        b"amalgam.git.export",
        OneOf(b"served", b"public"),
        b"served",
        b"Which changesets to export. ``served``: those that a server shows to its"
        b" clients, which includes drafts. ``public``: public changesets only.",
        untrusted=True,
    )
    export_on_change: bool = row(
        b"amalgam.git.export-on-change",
        Boolean(),
        False,
        b"Export in the background after each transaction: changesets, phases,"
        b" obsolescence, bookmarks, strip, rollback.",
        untrusted=True,
    )
    refs: tuple[bytes, ...] = row(
        b"amalgam.git.refs",
        SomeOf(b"bookmarks", b"tips", b"heads", b"tags"),
        (b"bookmarks", b"tips", b"tags"),
        b"Kinds of git refs, a list. ``tips`` are the tips of open branches."
        b" ``heads`` are all other heads of branches, below ``refs/hg/heads``.",
        untrusted=True,
    )
    dialect: bytes = row(
        b"amalgam.git.dialect",
        OneOf(*DIALECTS),
        METADATA_DIALECT,
        b"The rules that decide the commit ids. ``cinnabar``: the ids that"
        b" git-cinnabar computes.",
        untrusted=True,
    )
    check_texts: bool = row(
        b"amalgam.git.check-texts",
        Boolean(),
        True,
        b"Verify the SHA-1 of every file and changeset while exporting. Manifests"
        b" over 64 KiB are sampled: each is covered by its own hash or by the hash of"
        b" a manifest derived from it. ``hg git::verify --full`` verifies all of them.",
    )
    memory_bytes: int = row(
        b"amalgam.git.memory",
        # with less, an export would need only files
        Size(b"a size of at least 1.00 MB, such as 192 MB", 1 << 20),
        b"192 MB",
        b"How much memory an export may take for its buffers. The rest goes to"
        b" temporary files beside the packs. Each thread takes 16 MB, so less memory"
        b" also means fewer threads.",
    )
    path: bytes | None = row(
        b"amalgam.git.path",
        Path(),
        None,
        b"The directory of the git repositories, for instance on another volume. If"
        b" unset, it is ``.hg/amalgam/git``. A relative path starts at the directory"
        b" of the file that sets it. Each Mercurial repository needs a directory of"
        b" its own.",
    )
    program: bytes = row(b"amalgam.git.program", Program(), b"git", b"The git program.")

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


_SERVE: Item = row(
    b"amalgam.git.serve",
    Boolean(),
    False,
    b"Let git clients clone and fetch from hgweb, at the URL of the repository and"
    b" with its permissions.",
    untrusted=True,
)


class PushConfig(Record):
    """Pushes of git clients; after a mistake, they are refused."""

    push: bytes = row(
        b"amalgam.git.push",
        OneOf(b"no", b"yes", b"locked"),
        b"no",
        b"Accept pushes of git clients: over hgweb with the permission ``push``, and"
        b" over ssh. ``locked`` refuses them with a message. Needs"
        b" ``amalgam.git.serve``.",
        untrusted=True,
    )
    may_branch: bool = row(
        b"amalgam.git.push-branches",
        Boolean(),
        False,
        b"Let developers make new named branches with ``git push -o branch=NAME``.",
        untrusted=True,
    )
    may_tag: bool = row(
        b"amalgam.git.push-tags",
        Boolean(),
        False,
        b"Turn pushed tags into a commit to ``.hgtags``.",
        untrusted=True,
    )
    message: bytes = row(
        b"amalgam.git.push-message",
        Text(),
        None,
        b"The message for developers while ``amalgam.git.push`` is ``locked``.",
        untrusted=True,
    )

    @classmethod
    def from_ui(cls, ui: UiT) -> PushConfig:
        """Read the items."""
        return _read(cls, ui, _ignore)


class BundlesConfig(Record):
    """Generation and hosting of bundles; a mistake is warned of once."""

    formats: tuple[bytes, ...] = row(
        b"clone-bundles.git.formats",
        SomeOf(*GIT_FORMATS),
        (),
        b"Which bundles to generate for git; a list. ``git-v2`` is for ``git clone"
        b" --bundle-uri``, ``cinnabar-v1`` is for git-cinnabar.",
    )
    directory: bytes | None = row(
        b"amalgam.bundles.directory",
        Path(),
        None,
        b"The directory for bundles, if no ``clone-bundles.upload-command`` uploads"
        b" them. If unset, it is ``.hg/amalgam/bundles``.",
    )
    place: bytes = row(
        b"amalgam.bundles.url",
        Url(b"http://..., https://... or s3://BUCKET/PREFIX", STORE),
        None,
        b"The URL at which a web server serves that directory. If unset, hgweb serves"
        b" the files to everyone who may pull. Or the object store that bundles are"
        b" uploaded to: ``s3://``, ``gs://`` (Google) or ``az://`` (Azure)."
        b" ``amalgam.bundles.directory`` then has no effect.",
    )
    public_url: bytes = row(
        b"amalgam.bundles.public-url",
        Url(b"http://... or https://..."),
        None,
        b"The URL at which everybody can read the object store.",
    )
    link_seconds: int = row(
        b"amalgam.bundles.link-seconds",
        Seconds(),
        0,
        b"If the object store is private: for how long a link to a bundle is valid,"
        b" at most a week. hgweb makes links for clients that may pull. Set either"
        b" this or ``amalgam.bundles.public-url``.",
    )
    retention_seconds: int = row(
        b"amalgam.bundles.retention",
        Seconds(),
        7 * 24 * 3600,
        b"How long to keep a bundle after another has replaced it. The default is one"
        b" week.",
    )
    external: bool | None = row(
        b"amalgam.bundles.external",
        Boolean(False),
        None,
        b"Whether bundles may be put where hgweb's permissions do not hold: uploaded,"
        b" or served from ``amalgam.bundles.url``. If unset, only bundles of"
        b" repositories that everyone may read.",
    )

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


_NATIVE: Item = row(
    b"amalgam.bundles.native",
    Boolean(),
    True,
    b"Whether the native core writes changegroups: the contents of bundles, pulls and"
    b" pushes. If no, or where the core does not support a feature, Mercurial writes"
    b" them. Receivers get the same.",
)


class CompressionConfig(Record):
    """Compression of bundles; a mistake is warned of once."""

    level: int = row(
        b"amalgam.bundles.level",
        Number(1, 22),
        5,
        b"The zstd level of ``hg bundle -t zstd-v2`` and clone bundles. 9 is a strong"
        b" setting. Mercurial's own ``experimental.bundlecomplevel`` comes first.",
    )
    threads: int = row(
        b"amalgam.bundles.threads",
        Number(0, 256),
        0,
        b"How many threads compress a bundle. 0 is one for each core, at most 4. Each"
        b" takes about 15 MB at level 5. ``experimental.bundlecompthreads`` comes"
        b" first. The bytes of a bundle do not depend on it.",
    )
    window_bytes: int = row(
        b"amalgam.bundles.window",
        # 128 MB: the default limit of zstd decoders
        Size(b"a size from 1 MB to 128 MB", 1 << 20, 1 << 27),
        b"64 MB",
        b"How far back zstd looks for repetitions, rounded down to a power of two."
        b" Clients need as much memory; the manifest tells them (``REQUIREDRAM``).",
    )

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

    freshness: int = row(
        b"amalgam.serve.freshness",
        Number(),
        1000,
        b"Up to how many missing changesets a request exports before it is answered."
        b" If more are missing, it gets the last state, and an export starts in the"
        b" background.",
    )
    max_fetches: int = row(
        b"amalgam.serve.max-fetches",
        Number(1),
        4,
        b"How many git processes may make packs at the same time. Four times as many"
        b" may list refs, and as many may receive pushes. One client gets at most three"
        b" quarters of each.",
    )
    run_directory: bytes | None = row(
        b"amalgam.serve.run-directory",
        Path(),
        None,
        b"A directory in which all processes of a host share these limits. It is made"
        b" if it is missing, for its owner only. If unset, each process has limits of"
        b" its own.",
    )
    queue_seconds: int = row(
        b"amalgam.serve.queue-timeout",
        Seconds(),
        30,
        b"How long a request waits for its turn, or for an export.",
    )
    lag_seconds: int = row(
        b"amalgam.serve.replication-lag",
        Seconds(),
        0,
        b"Set it where several servers have copies of the repository: the longest time"
        b" that a changeset takes to reach all of them. A fetch of an id that this"
        b" server does not have waits that long for it. 0 is right for one server,"
        b" which answers at once.",
    )
    quiet_seconds: int = row(
        b"amalgam.serve.timeout",
        Seconds(1),
        300,
        b"How long a request may last without progress. It may last 100 times as long"
        b" in all.",
    )
    least_speed: int = row(
        b"amalgam.serve.min-speed",
        Size(b"a size such as 4 KB; 0 for any speed"),
        b"4 KB",
        b"How many bytes a client has to take or send per second. One that stays slower"
        b" is cut off after ``amalgam.serve.timeout``. The time that the server needs"
        b" does not count.",
    )
    max_body_bytes: int = row(
        b"amalgam.serve.max-body",
        Size(b"a size such as 32 MB", 1),
        b"32 MB",
        b"The largest request, after decompression. A mirror of 100,000 refs sends 5"
        b" MB.",
    )
    max_push_bytes: int = row(
        b"amalgam.serve.max-push",
        Size(b"a size such as 512 MB", 1),
        b"512 MB",
        b"The largest push, after decompression of the request. It is received in"
        b" ``.hg/amalgam``, and needs twice its size there for a while.",
    )
    max_push_objects: int = row(
        b"amalgam.serve.max-push-objects",
        Number(1),
        1_000_000,
        b"How many objects of git a push may send. They are counted when they have"
        b" arrived.",
    )
    max_push_commits: int = row(
        b"amalgam.serve.max-push-commits",
        Number(1),
        100_000,
        b"How many new commits a push may have.",
    )
    max_push_file_bytes: int = row(
        b"amalgam.serve.max-push-file",
        Size(b"a size such as 100 MB", 1),
        b"100 MB",
        b"The largest file that a new commit may add or change. Mercurial itself"
        b" stores up to 2 GB.",
    )
    bundle_uri: bool = row(
        b"amalgam.serve.bundle-uri",
        Boolean(),
        False,
        b"Advertise bundles to git clients that ask for them (``transfer.bundleURI``).",
        untrusted=True,
    )

    @classmethod
    def from_ui(cls, ui: UiT) -> ServeConfig:
        """Read the items."""
        return _read(cls, ui, _refuse, b"serve")


_SIZE_OR_ZERO = Size(b"a size such as 1 MB; 0 maps every index")
_MMAPINDEX: Item = row(
    b"experimental.mmapindex",
    Boolean(),
    None,
    b"Whether to memory-map indexes of at least the threshold. If unset, it is yes if"
    b" the threshold below is set. Otherwise Mercurial's ``storage.revlog.mmap.index``"
    b" decides.",
)
_THRESHOLD: Item = row(
    b"experimental.mmapindexthreshold",
    _SIZE_OR_ZERO,
    None,
    b"The threshold. Empty indexes are never mapped. If unset, Mercurial's"
    b" ``storage.revlog.mmap.index:size-threshold`` counts, which is 1 MB by default.",
)
_PREFAULT: Item = row(
    b"amalgam.index.prefault",
    OneOf(*PREFAULTS),
    b"none",
    b"How much of an index to read ahead when it is mapped. ``willneed`` reads all of"
    b" it in the background. ``populate`` reads all of it before hg continues.",
    untrusted=True,
)
_NODE_MAP: Item = row(
    b"amalgam.index.node-map",
    Boolean(),
    True,
    b"Whether to keep a node-to-revision map on disk for memory-mapped indexes."
    b" Without it, a Mercurial without Rust reads the whole index in each process that"
    b" looks up a node.",
    untrusted=True,
)
# Mercurial's own
_STOCK = b"storage.revlog.mmap.index"
_STOCK_THRESHOLD = _STOCK + b":size-threshold"


class IndexConfig(Record):
    """Memory mapping of changelog and manifest indexes; a mistake is warned of once."""

    threshold_bytes: int | None
    """Indexes of at least this size are mapped; ``None``: no index is."""
    item: bytes
    """The config item that decided: a threshold, or the item that disabled mapping."""
    prefault: bytes = PREFAULTS[0]
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
            least = Item(_STOCK_THRESHOLD, _SIZE_OR_ZERO, b"1 MB").read(ui, mistake)
            return least, _STOCK_THRESHOLD
        return (None, _STOCK) if stock is None else (stock, _STOCK_THRESHOLD)


def is_enabled(ui: UiT) -> bool:
    """Return whether the configuration in ``ui`` enables amalgam.

    hgweb loads an extension for all repositories if one of them enables it.
    """
    package = sys.modules[__name__.rpartition(".")[0]]
    return any(module is package for _name, module in extensions.extensions(ui))


def wants_serve(ui: UiT) -> bool:
    """Return ``amalgam.git.serve``; after a mistake, no."""
    return bool(_SERVE.read(ui, _ignore))


def wants_export_on_change(ui: UiT) -> bool:
    """Return ``amalgam.git.export-on-change``; after a mistake, no."""
    return bool(GitConfig._field_defaults["export_on_change"].read(ui, _ignore))


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
    for item in ITEMS:
        item.read(ui, mistake)
    IndexConfig._read(ui, mistake, None)
    return list(found.values())


def _unknown_items(ui: UiT) -> Iterator[tuple[bytes, error.ConfigError]]:
    """Yield items that are set and not in the table, with their probable group.

    The section ``amalgam`` is ours, and the prefix ``git.`` of ``clone-bundles``.
    """
    for section, only in ((b"amalgam", b""), (b"clone-bundles", b"git.")):
        names = configtable[section]
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
