"""The table of configuration items, as every hg process loads it.

Constants only: a class takes as many instructions as 50 rows. ``config`` makes
parsers of the kinds and reads values. Mercurial's ``configtable``, ``hg help
config.amalgam`` and the tables of ``docs/configuration.rst`` (``make config-page``)
come from here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from mercurial import extensions
from mercurial.configitems import configitem, coreitems, itemregister

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

GIT_FORMATS = GIT_V2, CINNABAR_V1 = (b"git-v2", b"cinnabar-v1")
METADATA_DIALECT = b"cinnabar"
"""The dialect whose commits have git-cinnabar's ids, and its metadata beside them."""
HGGIT_DIALECT = b"hggit"
"""The dialect whose commits and changesets have hg-git's ids."""
DIALECTS = (METADATA_DIALECT, HGGIT_DIALECT)
"""All dialects, as the core names them (``rust/capi/src/jobs.rs``)."""
PREFAULTS = (b"none", b"willneed", b"populate")
STORE = (
    rb"(?:s3|gs|az)://[a-z0-9][a-z0-9._-]{1,254}"
    rb"(?:/[A-Za-z0-9_=+-][A-Za-z0-9._=+-]{0,200}){0,20}"
)
"""An object store: its kind, a bucket, and a prefix. It has no place for a password."""

PLACE = b"NAME"
"""The part of an item's name that users choose."""

MMAP_THRESHOLD = (b"storage", b"revlog.mmap.index:size-threshold")
"""Mercurial's own item for the least size of a mapped index."""
LEAST_MAPPED_BYTES = 512 << 10
"""To read a smaller index takes little longer than to find its snapshot."""
LEAST_LOOKED_UP_BYTES = 8 << 20
"""To search a smaller index takes no longer than to load the modules of node maps."""

_TRUSTED, _UNTRUSTED = False, True
_SIZE_OR_ZERO = ("Size", b"a size such as 1 MB; 0 maps every index")

ROWS: tuple[tuple[bytes, tuple[Any, ...], Any, bool, bytes], ...] = (
    (
        b"amalgam.git.export",
        ("OneOf", b"served", b"public"),
        b"served",
        _UNTRUSTED,
        b"Which changesets to export. ``served``: those that a server shows to its"
        b" clients, which includes drafts. ``public``: public changesets only.",
    ),
    (
        b"amalgam.git.export-on-change",
        ("Boolean",),
        False,
        _UNTRUSTED,
        b"Export in the background after each transaction: changesets, phases,"
        b" obsolescence, bookmarks, strip, rollback.",
    ),
    (
        b"amalgam.git.refs",
        ("SomeOf", b"bookmarks", b"tips", b"heads", b"tags"),
        (b"bookmarks", b"tips", b"tags"),
        _UNTRUSTED,
        b"Kinds of git refs, a list. ``tips`` are the tips of open branches."
        b" ``heads`` are all other heads of branches, below ``refs/hg/heads``.",
    ),
    (
        b"amalgam.git.dialect",
        ("OneOf", *DIALECTS),
        METADATA_DIALECT,
        _UNTRUSTED,
        b"The rules that decide the commit ids. ``cinnabar``: the ids that"
        b" git-cinnabar computes. ``hggit``: those that hg-git gives. Each has a git"
        b" repository of its own, and only the configured one is served.",
    ),
    (
        b"amalgam.git.hggit-files",
        ("Boolean",),
        True,
        _TRUSTED,
        b"In a repository of hg-git with its dialect: write new commits, refs and tags"
        b" to hg-git's own files, too, so that hg-git can go on from there. ``hg"
        b" push`` is as with hg-git then. If you set it, files are made where there"
        b" are none.",
    ),
    (
        b"amalgam.git.check-texts",
        ("Boolean",),
        True,
        _TRUSTED,
        b"Verify the SHA-1 of every file and changeset while exporting. Manifests"
        b" over 64 KiB are sampled: each is covered by its own hash or by the hash of"
        b" a manifest derived from it. ``hg git::verify --full`` verifies all of"
        b" them.",
    ),
    (
        b"amalgam.git.max-pull",
        ("Size", b"a size such as 512 MB", 1),
        b"100 GB",
        _TRUSTED,
        b"The largest pack that a pull may receive from a git host.",
    ),
    (
        b"amalgam.git.max-pull-commits",
        ("Number", 1),
        5_000_000,
        _TRUSTED,
        b"How many new commits a pull may have. Each takes about 1 KB of memory.",
    ),
    (
        b"amalgam.git.max-pull-file",
        ("Size", b"a size such as 100 MB", 1),
        b"2 GB",
        _TRUSTED,
        b"The largest file that a pulled commit may add or change. Mercurial stores"
        b" up to 2 GB. git takes no more memory at once than the larger of both"
        b" limits, and at most 4 GB.",
    ),
    (
        b"amalgam.git.memory",
        ("Size", b"a size of at least 1.00 MB, such as 192 MB", 1 << 20),
        b"192 MB",
        _TRUSTED,
        b"How much memory an export or an import may take for its buffers. The rest"
        b" goes to temporary files. Each thread of an export takes 16 MB, so less"
        b" memory also means fewer threads. During an import, git maps as much of its"
        b" packs, and 32 MB at least.",
    ),
    (
        b"amalgam.git.path",
        ("Path",),
        None,
        _TRUSTED,
        b"The directory of the git repositories, for instance on another volume. If"
        b" unset, it is ``.hg/amalgam/git``. A relative path starts at the directory"
        b" of the file that sets it. Each Mercurial repository needs a directory of"
        b" its own.",
    ),
    (
        b"amalgam.git.program",
        ("Program",),
        b"git",
        _TRUSTED,
        b"The git program.",
    ),
    (
        b"amalgam.git.serve",
        ("Boolean",),
        False,
        _UNTRUSTED,
        b"Let git clients clone and fetch from hgweb, at the URL of the repository"
        b" and with its permissions.",
    ),
    (
        b"amalgam.git.push",
        ("OneOf", b"no", b"yes", b"locked"),
        b"no",
        _UNTRUSTED,
        b"Accept pushes of git clients: over hgweb with the permission ``push``, and"
        b" over ssh. ``locked`` refuses them with a message. Needs"
        b" ``amalgam.git.serve``.",
    ),
    (
        b"amalgam.git.push-branches",
        ("Boolean",),
        False,
        _UNTRUSTED,
        b"Let developers make new named branches with ``git push -o branch=NAME``.",
    ),
    (
        b"amalgam.git.push-exact",
        ("Boolean",),
        False,
        _UNTRUSTED,
        b"Accept signed commits, submodules and other things that changesets cannot"
        b" express, and keep these in extras of the changesets. git-cinnabar would give"
        b" these other ids, so its metadata is not advertised from the first one on. In"
        b" hg-git's dialect, the first pull from git decides, too: with ``no``, a list"
        b" in ``.hg/amalgam`` keeps the ids of such commits.",
    ),
    (
        b"amalgam.git.push-tags",
        ("Boolean",),
        False,
        _UNTRUSTED,
        b"Turn pushed tags into a commit to ``.hgtags``. And let ``hg push`` to a git"
        b" repository push tags of ``.hgtags`` that it lacks.",
    ),
    (
        b"amalgam.git.push-message",
        ("Text",),
        None,
        _UNTRUSTED,
        b"The message for developers while ``amalgam.git.push`` is ``locked``.",
    ),
    (
        b"clone-bundles.git.formats",
        ("SomeOf", *GIT_FORMATS),
        (),
        _TRUSTED,
        b"Which bundles to generate for git; a list. ``git-v2`` is for ``git clone"
        b" --bundle-uri``, ``cinnabar-v1`` is for git-cinnabar.",
    ),
    (
        b"amalgam.bundles.directory",
        ("Path",),
        None,
        _TRUSTED,
        b"The directory for bundles, if no ``clone-bundles.upload-command`` uploads"
        b" them. If unset, it is ``.hg/amalgam/bundles``.",
    ),
    (
        b"amalgam.bundles.url",
        ("Url", b"http://..., https://... or s3://BUCKET/PREFIX", STORE),
        None,
        _TRUSTED,
        b"The URL at which a web server serves that directory. If unset, hgweb"
        b" serves the files to everyone who may pull. Or the object store that"
        b" bundles are uploaded to: ``s3://``, ``gs://`` (Google) or ``az://``"
        b" (Azure). ``amalgam.bundles.directory`` then has no effect.",
    ),
    (
        b"amalgam.bundles.public-url",
        ("Url", b"http://... or https://..."),
        None,
        _TRUSTED,
        b"The URL at which everybody can read the object store.",
    ),
    (
        b"amalgam.bundles.link-seconds",
        ("Seconds",),
        0,
        _TRUSTED,
        b"If the object store is private: for how long a link to a bundle is valid,"
        b" at most a week. hgweb makes links for clients that may pull. Set either"
        b" this or ``amalgam.bundles.public-url``.",
    ),
    (
        b"amalgam.bundles.retention",
        ("Seconds",),
        7 * 24 * 3600,
        _TRUSTED,
        b"How long to keep a bundle after another has replaced it. The default is"
        b" one week.",
    ),
    (
        b"amalgam.bundles.external",
        ("Boolean", False),
        None,
        _TRUSTED,
        b"Whether bundles may be put where hgweb's permissions do not hold:"
        b" uploaded, or served from ``amalgam.bundles.url``. If unset, only bundles"
        b" of repositories that everyone may read.",
    ),
    (
        b"amalgam.bundles.native",
        ("Boolean",),
        True,
        _TRUSTED,
        b"Whether the native core writes changegroups: the contents of bundles,"
        b" pulls and pushes. If no, or where the core does not support a feature,"
        b" Mercurial writes them. Receivers get the same.",
    ),
    (
        b"amalgam.bundles.level",
        ("Number", 1, 22),
        5,
        _TRUSTED,
        b"The zstd level of ``hg bundle -t zstd-v2`` and clone bundles. 9 is a"
        b" strong setting. Mercurial's own ``experimental.bundlecomplevel`` comes"
        b" first.",
    ),
    (
        b"amalgam.bundles.threads",
        ("Number", 0, 256),
        0,
        _TRUSTED,
        b"How many threads compress a bundle. 0 is one for each core, at most 4."
        b" Each takes about 15 MB at level 5. ``experimental.bundlecompthreads``"
        b" comes first. The bytes of a bundle do not depend on it.",
    ),
    (
        b"amalgam.bundles.window",
        ("Size", b"a size from 1 MB to 128 MB", 1 << 20, 1 << 27),
        b"64 MB",
        _TRUSTED,
        b"How far back zstd looks for repetitions, rounded down to a power of two."
        b" Clients need as much memory; the manifest tells them (``REQUIREDRAM``).",
    ),
    (
        b"amalgam.serve.freshness",
        ("Number",),
        1000,
        _TRUSTED,
        b"Up to how many missing changesets a request exports before it is answered."
        b" If more are missing, it gets the last state, and an export starts in the"
        b" background.",
    ),
    (
        b"amalgam.serve.max-fetches",
        ("Number", 1),
        4,
        _TRUSTED,
        b"How many git processes may make packs at the same time. Four times as many"
        b" may list refs, and as many may receive pushes. One client gets at most three"
        b" quarters of each.",
    ),
    (
        b"amalgam.serve.run-directory",
        ("Path",),
        None,
        _TRUSTED,
        b"A directory in which all processes of a host share these limits. It is"
        b" made if it is missing, for its owner only. If unset, each process has"
        b" limits of its own.",
    ),
    (
        b"amalgam.serve.queue-timeout",
        ("Seconds",),
        30,
        _TRUSTED,
        b"How long a request waits for its turn, or for an export.",
    ),
    (
        b"amalgam.serve.replication-lag",
        ("Seconds",),
        0,
        _TRUSTED,
        b"Set it where several servers have copies of the repository: the longest time"
        b" that a changeset takes to reach all of them. A fetch of an id that this"
        b" server does not have waits that long for it. 0 is right for one server,"
        b" which answers at once.",
    ),
    (
        b"amalgam.serve.timeout",
        ("Seconds", 1),
        300,
        _TRUSTED,
        b"How long a request may last without progress. It may last 100 times as"
        b" long in all.",
    ),
    (
        b"amalgam.serve.min-speed",
        ("Size", b"a size such as 4 KB; 0 for any speed"),
        b"4 KB",
        _TRUSTED,
        b"How many bytes a client has to take or send per second. One that stays slower"
        b" is cut off after ``amalgam.serve.timeout``. The time that the server needs"
        b" does not count.",
    ),
    (
        b"amalgam.serve.max-body",
        ("Size", b"a size such as 32 MB", 1),
        b"32 MB",
        _TRUSTED,
        b"The largest request, after decompression. A mirror of 100,000 refs sends 5"
        b" MB.",
    ),
    (
        b"amalgam.serve.max-push",
        ("Size", b"a size such as 512 MB", 1),
        b"512 MB",
        _TRUSTED,
        b"The largest push, after decompression of the request. It is received in"
        b" ``.hg/amalgam``, and needs twice its size there for a while.",
    ),
    (
        b"amalgam.serve.max-push-objects",
        ("Number", 1),
        1_000_000,
        _TRUSTED,
        b"How many objects of git a push may send. They are counted when they have"
        b" arrived.",
    ),
    (
        b"amalgam.serve.max-push-commits",
        ("Number", 1),
        100_000,
        _TRUSTED,
        b"How many new commits a push may have.",
    ),
    (
        b"amalgam.serve.max-push-file",
        ("Size", b"a size such as 100 MB", 1),
        b"100 MB",
        _TRUSTED,
        b"The largest file that a new commit may add or change. Mercurial itself"
        b" stores up to 2 GB.",
    ),
    (
        b"amalgam.serve.bundle-uri",
        ("Boolean",),
        False,
        _UNTRUSTED,
        b"Advertise bundles to git clients that ask for them (``transfer.bundleURI``).",
    ),
    (
        b"amalgam.replicate.NAME",
        ("Text", b"a URL or a path"),
        None,
        _TRUSTED,
        b"A git repository to replicate to: ``hg git::push NAME``. NAME has letters,"
        b" digits, ``-`` and ``_``. Passwords are kept by git's credential helpers, not"
        b" in the URL.",
    ),
    (
        b"amalgam.replicate.NAME.refs",
        ("Words", b"a list of patterns"),
        (),
        _TRUSTED,
        b"Which refs go there. ``release/*`` is a pattern of branches, ``refs/tags/*``"
        b" of other refs; ``!wip/*`` keeps some back, and ``default:main`` gives"
        b" another name. If it is unset, or has no pattern with a star, all branches"
        b" and tags go.",
    ),
    (
        b"amalgam.replicate.NAME.on-change",
        ("Boolean",),
        False,
        _TRUSTED,
        b"Push in the background after each change. Implies"
        b" ``amalgam.git.export-on-change``.",
    ),
    (
        b"amalgam.replicate.NAME.prune",
        ("Boolean",),
        False,
        _TRUSTED,
        b"Delete refs there that amalgam has written and that are gone here. Refs of"
        b" changesets that nobody may read any more are always deleted.",
    ),
    (
        b"amalgam.replicate.NAME.options",
        ("Words", b"a list of push options"),
        (),
        _TRUSTED,
        b"Push options for the server (``git push -o``), such as ``ci.skip``.",
    ),
    (
        b"amalgam.replicate.NAME.slice",
        ("Number", 1),
        5000,
        _TRUSTED,
        b"The most commits of one push. A larger change takes several pushes. It is"
        b" halved by itself when the server says that it was too much.",
    ),
    (
        b"amalgam.replicate.NAME.tags-per-push",
        ("Number",),
        0,
        _TRUSTED,
        b"The most tags of one push, for hosts that start no builds if there are more"
        b" than 3. 0: as many as there are, together with branches.",
    ),
    (
        b"amalgam.replicate.NAME.timeout",
        ("Seconds", 1),
        600,
        _TRUSTED,
        b"How long git may be silent before a push is given up.",
    ),
    (
        b"amalgam.replicate.NAME.hide-refs",
        ("Boolean",),
        False,
        _TRUSTED,
        b"Ask git there to advertise only the refs that a push moves. With 100,000"
        b" refs, a push costs a third. It needs a path, or ssh to an account with a"
        b" shell. It sets ``receive.hideRefs``, and overrides what the remote hides.",
    ),
    (
        b"amalgam.follow.NAME",
        ("Text", b"a URL or a path"),
        None,
        _TRUSTED,
        b"A git repository to follow: ``hg git::follow`` pulls from it. NAME has"
        b" letters, digits, ``-`` and ``_``.",
    ),
    (
        b"amalgam.follow.NAME.refs",
        ("Words", b"a list of patterns"),
        (),
        _TRUSTED,
        b"Which refs are pulled, as in ``amalgam.replicate.NAME.refs``, but under their"
        b" own names. If it is unset, all branches, tags and notes are.",
    ),
    (
        b"amalgam.follow.NAME.interval",
        ("Seconds",),
        0,
        _TRUSTED,
        b"When a client asks the server, and the last look at the git repository is"
        b" older than this, look again in the background. 0: only ``hg git::follow``"
        b" looks.",
    ),
    (
        b"experimental.mmapindex",
        ("Boolean",),
        None,
        _TRUSTED,
        b"Whether to memory-map indexes of at least the threshold. If unset, it is"
        b" yes if the threshold below is set. Otherwise Mercurial's"
        b" ``storage.revlog.mmap.index`` decides.",
    ),
    (
        b"experimental.mmapindexthreshold",
        _SIZE_OR_ZERO,
        None,
        _TRUSTED,
        b"The threshold. Empty indexes are never mapped. If unset, Mercurial's"
        b" ``storage.revlog.mmap.index:size-threshold`` counts, which is 1 MB. If none"
        b" of the three is set, indexes of 512 KB and more are mapped, those of other"
        b" users from 8 MB on, and from 8 MB on nodes are looked up in a node map:"
        b" below, that takes longer than to do without.",
    ),
    (
        b"amalgam.index.prefault",
        ("OneOf", *PREFAULTS),
        b"none",
        _UNTRUSTED,
        b"How much of an index to read ahead when it is mapped. ``willneed`` reads"
        b" all of it in the background. ``populate`` reads all of it before hg"
        b" continues.",
    ),
    (
        b"amalgam.index.node-map",
        ("Boolean",),
        True,
        _UNTRUSTED,
        b"Whether to keep a node-to-revision map on disk for memory-mapped indexes."
        b" Without it, a Mercurial without Rust reads the whole index in each process"
        b" that looks up a node.",
    ),
)
"""The rows, in the order of the page: section and name; kind, a class of ``config``,
and its arguments; default; whether the ``.hg/hgrc`` of an untrusted owner counts, which
is for choices of that owner that name no path, program or limit; help."""

_OURS = b"amalgam."


def row_of(name: bytes) -> tuple[Any, ...] | None:
    """Return the row of an item, ``None`` if it is unknown or users choose a part."""
    for row in ROWS:
        if row[0] == name and PLACE not in name:
            return row
    return None


def _item(name: bytes, default: Any) -> configitem:
    section, _dot, name = name.partition(b".")
    if isinstance(default, tuple):
        default = [*default].copy  # Mercurial wants a list from a function
    return configitem(section, name, default)


class _Items(itemregister):
    """The items of our section, each made when Mercurial first looks at it."""

    def get(self, key: bytes) -> Any:
        """Return the item of this name, ``None`` for an unknown one."""
        item = super().get(key)
        row = None if item is not None else row_of(_OURS + key)
        if row is not None:
            item = self[key] = _item(row[0], row[2])
        return item

    def items(self) -> Any:
        """Return all names with their items."""
        for row in ROWS:
            self.get(row[0].removeprefix(_OURS))
        return super().items()


configtable: dict[bytes, dict[bytes, Any]] = {}
"""Items in sections of Mercurial. Of ours, it would check and copy each one."""
for _row in ROWS:
    if not _row[0].startswith(_OURS):
        _made = _item(_row[0], _row[2])
        configtable.setdefault(_made.section, itemregister())[_made.name] = _made
if b"amalgam" not in coreitems:
    coreitems[b"amalgam"] = _Items()


def is_enabled(ui: UiT) -> bool:
    """Return whether the configuration in ``ui`` enables amalgam.

    hgweb loads an extension for all repositories if one of them enables it.
    """
    package = sys.modules[__name__.rpartition(".")[0]]
    return any(module is package for _name, module in extensions.extensions(ui))


def least_mapped(ui: UiT, stock_bytes: int | None) -> int | None:
    """Return the size from which on indexes are mapped, if ``experimental`` is silent.

    ``stock_bytes``: the size that Mercurial resolved; ``None`` for no index at all.
    """
    if stock_bytes is None or ui.hasconfig(*MMAP_THRESHOLD):
        return stock_bytes
    return min(stock_bytes, LEAST_MAPPED_BYTES)
