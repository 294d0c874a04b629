"""Every config item of amalgam: its default, and how its value is read.

A group of items is read once into a record. Nothing else asks ``ui``, but for
``hooks``, which asks whether there are ``clone-bundles.git.formats``. What the items
mean to a user is in ``docs/configuration.rst`` and in ``hg help amalgam``. One module,
since ``mistakes`` has to know them all.

Items that decide what leaves, where to and by which program are read strictly: a
mistake is a ``ConfigError``. Those about speed and bundles are read leniently, since
every command reads them: a mistake is warned of once, and the default is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import error, registrar, util
from mercurial.i18n import _

from .configvalues import Values, ignore, refuse, unknown_items
from .records import Record

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

GIT_FORMATS = GIT_V2, CINNABAR_V1 = (b"git-v2", b"cinnabar-v1")
DIALECTS = (b"cinnabar",)
EXPORTS = (b"served", b"public")
PUSHES = (b"no", b"yes", b"locked")
REF_KINDS = (b"bookmarks", b"tips", b"heads", b"tags")
DEFAULT_REFS = (b"bookmarks", b"tips", b"tags")
MEMORY_BYTES = 192 << 20
# with less than this, an export would be files and no memory
LEAST_MEMORY_BYTES = 1 << 20
PREFAULTS = (b"none", b"willneed", b"populate")
RETENTION_SECONDS = 7 * 24 * 3600
COMPRESSION_LEVEL = 5
STRONGEST_LEVEL = 22
WINDOW_BYTES = 1 << 26
LEAST_WINDOW_BYTES = 1 << 20
# what every zstd decoder accepts by default
MOST_WINDOW_BYTES = 1 << 27
MOST_THREADS = 256
_STOCK_THRESHOLD_BYTES = 1 << 20
FRESHNESS = 1000
BODY_BYTES = 32 << 20
PUSH_BYTES = 512 << 20
PUSH_OBJECTS = 1_000_000
PUSH_COMMITS = 100_000
PUSH_FILE_BYTES = 100 << 20
FETCHES = 4
QUEUE_SECONDS = 30
QUIET_SECONDS = 300
STORE = (
    rb"(?:s3|gs|az)://[a-z0-9][a-z0-9._-]{1,254}"
    rb"(?:/[A-Za-z0-9_=+-][A-Za-z0-9._=+-]{0,200}){0,20}"
)
"""An object store: its kind, a bucket, and a prefix. It has no place for a password."""

configtable: dict[bytes, dict[bytes, Any]] = {}
configitem = registrar.configitem(configtable)

configitem(b"amalgam", b"bundles.directory", default=None)
configitem(b"amalgam", b"bundles.external", default=None)
configitem(b"amalgam", b"bundles.level", default=COMPRESSION_LEVEL)
configitem(b"amalgam", b"bundles.link-seconds", default=0)
configitem(b"amalgam", b"bundles.public-url", default=None)
configitem(b"amalgam", b"bundles.native", default=True)
configitem(b"amalgam", b"bundles.retention", default=RETENTION_SECONDS)
configitem(b"amalgam", b"bundles.threads", default=0)
configitem(b"amalgam", b"bundles.url", default=None)
configitem(b"amalgam", b"bundles.window", default=b"%d MB" % (WINDOW_BYTES >> 20))
configitem(b"amalgam", b"git.check-texts", default=True)
configitem(b"amalgam", b"git.dialect", default=b"cinnabar")
configitem(b"amalgam", b"git.export", default=b"served")
configitem(b"amalgam", b"git.export-on-change", default=False)
configitem(b"amalgam", b"git.memory", default=b"%d MB" % (MEMORY_BYTES >> 20))
configitem(b"amalgam", b"git.path", default=None)
configitem(b"amalgam", b"git.program", default=b"git")
configitem(b"amalgam", b"git.push", default=b"no")
configitem(b"amalgam", b"git.push-branches", default=False)
configitem(b"amalgam", b"git.push-message", default=None)
configitem(b"amalgam", b"git.push-tags", default=False)
configitem(b"amalgam", b"git.refs", default=lambda: list(DEFAULT_REFS))
configitem(b"amalgam", b"git.serve", default=False)
configitem(b"amalgam", b"index.node-map", default=True)
configitem(b"amalgam", b"index.prefault", default=b"none")
configitem(b"amalgam", b"serve.bundle-uri", default=False)
configitem(b"amalgam", b"serve.freshness", default=FRESHNESS)
configitem(b"amalgam", b"serve.max-body", default=b"%d MB" % (BODY_BYTES >> 20))
configitem(b"amalgam", b"serve.max-fetches", default=FETCHES)
configitem(b"amalgam", b"serve.max-push", default=b"%d MB" % (PUSH_BYTES >> 20))
configitem(b"amalgam", b"serve.max-push-commits", default=PUSH_COMMITS)
_file_bytes = b"%d MB" % (PUSH_FILE_BYTES >> 20)
configitem(b"amalgam", b"serve.max-push-file", default=_file_bytes)
configitem(b"amalgam", b"serve.max-push-objects", default=PUSH_OBJECTS)
configitem(b"amalgam", b"serve.queue-timeout", default=QUEUE_SECONDS)
configitem(b"amalgam", b"serve.run-directory", default=None)
configitem(b"amalgam", b"serve.timeout", default=QUIET_SECONDS)
configitem(b"clone-bundles", b"git.formats", default=list)
configitem(b"experimental", b"mmapindex", default=None)
configitem(b"experimental", b"mmapindexthreshold", default=None)


class GitConfig(Record):
    """The items ``amalgam.git.*``, checked."""

    dialect: bytes
    """Whose commit ids: one of ``DIALECTS``."""
    export: bytes
    """Which changesets may leave: one of ``EXPORTS``."""
    export_on_change: bool
    """Whether the store follows each transaction."""
    refs: frozenset[bytes]
    """What becomes a ref: some of ``REF_KINDS``."""
    check_texts: bool
    """Whether each text is verified against its node."""
    memory_bytes: int
    """Bound of the anonymous memory of one export."""
    path: bytes | None
    """Where the git stores are; relative to the file that says so. Unset or empty for
    ``.hg/amalgam/git``."""
    program: bytes
    """The git program, a name on ``PATH`` or a path; of trusted configuration only."""

    @classmethod
    def from_ui(cls, ui: UiT, dialect: bytes = b"") -> GitConfig:
        """Read the items; one that is wrong or does not exist is a ``ConfigError``.

        A ``dialect`` that is given stands for the one configured. What is exported is
        the choice of the repository's owner, trusted or not; where to and by which
        program is not.
        """
        if dialect and dialect not in DIALECTS:
            raise error.InputError(
                _(b"unknown dialect '%s'") % dialect,
                hint=_(b"allowed: %s") % b", ".join(DIALECTS),
            )
        config = cls._read(Values(ui, refuse))
        return config._replace(dialect=dialect) if dialect else config

    @classmethod
    def _read(cls, values: Values) -> GitConfig:
        values.known(configtable, b"git")
        refs = values.some_of(b"amalgam", b"git.refs", REF_KINDS, untrusted=True)
        size = _(b"a size of at least %s, such as 192 MB")
        size %= util.bytecount(LEAST_MEMORY_BYTES)
        return cls(
            dialect=values.one_of(b"amalgam", b"git.dialect", DIALECTS),
            export=values.one_of(b"amalgam", b"git.export", EXPORTS),
            export_on_change=_wants_export_on_change(values),
            refs=frozenset(refs),
            check_texts=values.boolean(b"amalgam", b"git.check-texts", True),
            memory_bytes=values.size(
                b"amalgam", b"git.memory", MEMORY_BYTES, size, LEAST_MEMORY_BYTES
            ),
            path=values.path(b"amalgam", b"git.path"),
            program=values.program(b"amalgam", b"git.program"),
        )


class IndexConfig(Record):
    """From which size on the indexes of changelog and manifest are mapped, and how.

    The items are ``experimental.mmapindex`` and ``experimental.mmapindexthreshold``;
    Mercurial's own, ``storage.revlog.mmap.index*``, where these are not set; and
    ``amalgam.index.prefault``.
    """

    threshold_bytes: int | None
    """Indexes of at least this size are mapped; ``None``: no index is."""
    item: bytes
    """The config item that decided: the threshold's, or what switched mapping off."""
    prefault: bytes = PREFAULTS[0]
    """What of an index is read ahead when it is mapped: one of ``PREFAULTS``."""

    @classmethod
    def from_ui(cls, ui: UiT, stock_threshold_bytes: int | None) -> IndexConfig:
        """Read the items; warn once of what is wrong, and do without it.

        ``stock_threshold_bytes``: what Mercurial made of its own.
        """
        return cls._read(Values(ui, ignore(ui)), stock_threshold_bytes)

    @classmethod
    def _read(cls, values: Values, stock_threshold_bytes: int | None) -> IndexConfig:
        values.known(configtable, b"index")
        prefault = values.one_of(b"amalgam", b"index.prefault", PREFAULTS)
        threshold, item = cls._threshold(values, stock_threshold_bytes)
        return cls(threshold, item, prefault)

    @staticmethod
    def _threshold(
        values: Values, stock_threshold_bytes: int | None
    ) -> tuple[int | None, bytes]:
        wanted = values.boolean(b"experimental", b"mmapindex", None)
        size = _(b"a size such as 1 MB; 0 maps every index")
        threshold = values.size(b"experimental", b"mmapindexthreshold", None, size)
        if wanted is False:
            return None, b"experimental.mmapindex"
        if threshold is not None:
            return threshold, b"experimental.mmapindexthreshold"
        stock = b"revlog.mmap.index:size-threshold"
        if wanted:
            least = values.size(b"storage", stock, _STOCK_THRESHOLD_BYTES, size)
            return least, b"storage." + stock
        if stock_threshold_bytes is None:
            return None, b"storage.revlog.mmap.index"
        return stock_threshold_bytes, b"storage." + stock


class BundlesConfig(Record):
    """The items ``amalgam.bundles.*``, and ``clone-bundles.git.formats``.

    They decide what is written where, so only trusted configuration counts.
    """

    formats: list[bytes]
    """Which bundles for git are wanted, as it is configured."""
    directory: bytes | None
    """Where bundles are put; ``None`` for ``.hg/amalgam/bundles``."""
    url: bytes
    """Where that directory is served, without a slash at the end; empty if only hgweb
    does, or bundles are in a store."""
    store: bytes
    """The object store that bundles are put in (``STORE``); empty if they are not."""
    public_url: bytes
    """Where everybody can read what is in the store; empty if nobody can."""
    link_seconds: int
    """How long a link to a bundle in the store is valid; 0: there are none."""
    external: bool | None
    """Whether bundles may be put where the permissions of the repository do not hold;
    ``None``: if anybody may read it. A mistake is no."""
    retention_seconds: int
    """How long a bundle that was replaced is kept."""

    @classmethod
    def from_ui(cls, ui: UiT) -> BundlesConfig:
        """Read the items; warn once of what is wrong, and do without it.

        What publishes bundles calls ``check`` before.
        """
        return cls._read(Values(ui, ignore(ui)))

    @classmethod
    def check(cls, ui: UiT) -> None:
        """Raise ``ConfigError`` for an item that is wrong or does not exist."""
        cls._read(Values(ui, refuse))

    @classmethod
    def _read(cls, values: Values) -> BundlesConfig:
        values.known(configtable, b"bundles")
        formats = values.some_of(
            b"clone-bundles", b"git.formats", GIT_FORMATS, untrusted=False
        )
        url = values.url(b"amalgam", b"bundles.url", STORE)
        is_store = not url.startswith(b"http")
        return cls(
            formats=formats,
            directory=values.path(b"amalgam", b"bundles.directory"),
            url=b"" if is_store else url,
            store=url if is_store else b"",
            public_url=values.url(b"amalgam", b"bundles.public-url"),
            link_seconds=values.seconds(b"amalgam", b"bundles.link-seconds", 0),
            external=values.boolean(b"amalgam", b"bundles.external", False),
            retention_seconds=values.seconds(
                b"amalgam", b"bundles.retention", RETENTION_SECONDS
            ),
        )


class CompressionConfig(Record):
    """The items ``amalgam.bundles.level``, ``.threads`` and ``.window``."""

    level: int
    """The level of zstd, 1 to ``STRONGEST_LEVEL``."""
    threads: int
    """How many threads compress; 0: as many as there are cores."""
    window_bytes: int
    """How far back repetitions are found, which is what a decoder has to keep."""

    @classmethod
    def from_ui(cls, ui: UiT) -> CompressionConfig:
        """Read the items; warn once of what is wrong, and do without it."""
        return cls._read(Values(ui, ignore(ui)))

    @classmethod
    def check(cls, ui: UiT) -> None:
        """Raise ``ConfigError`` for an item that is wrong."""
        cls._read(Values(ui, refuse))

    @classmethod
    def _read(cls, values: Values) -> CompressionConfig:
        count, section = values.count, b"amalgam"
        window = _(b"a size from 1 MB to 128 MB")
        return cls(
            level=count(
                section, b"bundles.level", COMPRESSION_LEVEL, 1, STRONGEST_LEVEL
            ),
            threads=count(section, b"bundles.threads", 0, 0, MOST_THREADS),
            window_bytes=values.size(
                *(section, b"bundles.window", WINDOW_BYTES, window),
                *(LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES),
            ),
        )


class ServeConfig(Record):
    """The items ``amalgam.serve.*``: what hgweb answers to git, and within what limits.

    ``amalgam.git.serve`` itself is read by ``wants_serve``.
    """

    bundle_uri: bool
    """Whether clients are told of bundles: the choice of the repository's owner."""
    freshness: int
    """Up to how many missing changesets a request exports before it is answered."""
    max_body_bytes: int
    """Bound of the body of a request, after decompression."""
    max_fetches: int
    """How many git processes may make packs at the same time; and receive pushes."""
    max_push_bytes: int
    """Bound of what a push sends, after decompression of the request."""
    max_push_commits: int
    """Bound of the new commits of a push."""
    max_push_file_bytes: int
    """Bound of a file in a new commit of a push."""
    max_push_objects: int
    """Bound of the objects that a push sends."""
    queue_seconds: int
    """How long a request waits for its turn, an export, or a commit to come."""
    run_directory: bytes | None
    """Where the processes of a host share limits; ``None``: each has its own."""
    quiet_seconds: int
    """How long a request may last without any progress."""

    @classmethod
    def from_ui(cls, ui: UiT) -> ServeConfig:
        """Read the items; one that is wrong or does not exist is a ``ConfigError``."""
        return cls._read(Values(ui, refuse))

    @classmethod
    def _read(cls, values: Values) -> ServeConfig:
        values.known(configtable, b"serve")
        count, seconds = values.count, values.seconds
        size = _(b"a size such as 32 MB")
        body = values.size(b"amalgam", b"serve.max-body", BODY_BYTES, size, 1)
        most = _(b"a size such as 512 MB")
        push = values.size(b"amalgam", b"serve.max-push", PUSH_BYTES, most, 1)
        most = _(b"a size such as 100 MB")
        file = values.size(b"amalgam", b"serve.max-push-file", PUSH_FILE_BYTES, most, 1)
        return cls(
            bundle_uri=bool(
                values.boolean(b"amalgam", b"serve.bundle-uri", False, untrusted=True)
            ),
            freshness=count(b"amalgam", b"serve.freshness", FRESHNESS, 0),
            max_body_bytes=body,
            max_fetches=count(b"amalgam", b"serve.max-fetches", FETCHES, 1),
            max_push_bytes=push,
            max_push_commits=count(
                b"amalgam", b"serve.max-push-commits", PUSH_COMMITS, 1
            ),
            max_push_file_bytes=file,
            max_push_objects=count(
                b"amalgam", b"serve.max-push-objects", PUSH_OBJECTS, 1
            ),
            queue_seconds=seconds(b"amalgam", b"serve.queue-timeout", QUEUE_SECONDS),
            run_directory=values.path(b"amalgam", b"serve.run-directory"),
            quiet_seconds=seconds(b"amalgam", b"serve.timeout", QUIET_SECONDS, 1),
        )


def wants_serve(ui: UiT) -> bool:
    """Tell whether git clients are answered: ``amalgam.git.serve``.

    The repository's owner decides, trusted or not, as for items of ``[web]``. A mistake
    is a no, and ``admin::amalgam`` names it.
    """
    return _wants_serve(Values(ui, lambda _mistake: None))


def _wants_serve(values: Values) -> bool:
    return bool(values.boolean(b"amalgam", b"git.serve", False, untrusted=True))


class PushConfig(Record):
    """The items ``amalgam.git.push*``: whether pushes of git clients are taken.

    The repository's owner decides, trusted or not, as for items of ``[web]``. A mistake
    is a no, and ``admin::amalgam`` names it.
    """

    push: bytes
    """One of ``PUSHES``; ``locked``: they are refused with ``message`` for now."""
    message: bytes
    """What those are told whose push is refused while it is locked."""
    may_branch: bool
    """Whether a push may make a named branch."""
    may_tag: bool
    """Whether tags of a push become a commit to ``.hgtags``."""

    @classmethod
    def from_ui(cls, ui: UiT) -> PushConfig:
        """Read the items."""
        return cls._read(Values(ui, lambda _mistake: None), ui)

    @classmethod
    def _read(cls, values: Values, ui: UiT) -> PushConfig:
        message = ui.config(b"amalgam", b"git.push-message", untrusted=True)
        return cls(
            push=values.one_of(b"amalgam", b"git.push", PUSHES),
            message=b" ".join((message or b"").split()),
            may_branch=values.boolean(
                b"amalgam", b"git.push-branches", False, untrusted=True
            ),
            may_tag=values.boolean(b"amalgam", b"git.push-tags", False, untrusted=True),
        )


def wants_export_on_change(ui: UiT) -> bool:
    """Tell whether the git store is to follow: ``amalgam.git.export-on-change``.

    A mistake is a no: transactions go on, and ``admin::amalgam`` names it.
    """
    return _wants_export_on_change(Values(ui, lambda _mistake: None))


def _wants_export_on_change(values: Values) -> bool:
    item = (b"amalgam", b"git.export-on-change")
    return bool(values.boolean(*item, False, untrusted=True))


def wants_node_map(ui: UiT) -> bool:
    """Tell whether nodes are to be looked up in a node map: ``amalgam.index.node-map``.

    As with all that only affects speed, the choice of the repository's owner counts,
    and a mistake is warned of once.
    """
    return _wants_node_map(Values(ui, ignore(ui)))


def _wants_node_map(values: Values) -> bool:
    return bool(values.boolean(b"amalgam", b"index.node-map", True, untrusted=True))


def wants_native_bundles(ui: UiT) -> bool:
    """Tell whether changegroups are written natively: ``amalgam.bundles.native``."""
    return _wants_native_bundles(Values(ui, ignore(ui)))


def _wants_native_bundles(values: Values) -> bool:
    return bool(values.boolean(b"amalgam", b"bundles.native", True))


def mistakes(ui: UiT) -> list[error.ConfigError]:
    """Return all that is wrong in the configuration of amalgam."""
    found: list[error.ConfigError] = []
    values = Values(ui, found.append)
    GitConfig._read(values)
    BundlesConfig._read(values)
    CompressionConfig._read(values)
    IndexConfig._read(values, None)
    ServeConfig._read(values)
    PushConfig._read(values, ui)
    _wants_serve(values)
    _wants_node_map(values)
    _wants_native_bundles(values)
    read = (b"git", b"bundles", b"index", b"serve")
    unknown = unknown_items(ui, configtable)
    return found + [mistake for group, mistake in unknown if group not in read]
