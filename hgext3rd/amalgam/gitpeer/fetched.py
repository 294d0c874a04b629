"""The objects that were fetched from git remotes, and the refs that these had.

``.hg/amalgam/fetched`` (docs/formats/imported.rst): one bare repository for all
remotes, and a file of refs for each. All of it can be fetched again.

git reaches a remote with the configuration of the user, so it runs in a repository that
was just made (``gitstore.git.process``), and only its objects go where they stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from mercurial import error, util

from .. import __version__
from ..files import TEMPORARY, TICK_NS, Directory, Unusable
from ..gitstore import selection
from ..gitstore.fetchedrefs import FetchedRefs, formatted, head_content
from ..gitstore.git import layout
from ..gitstore.git.layout import PACKS
from ..gitstore.git.process import FetchLimits, Git, windows
from ..gitstore.git.repository import Repository
from ..gitstore.remotetags import fetched_git
from ..remote.transport import FailureKind, RemoteFailureError
from ..scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ..gitstore.fetchedrefs import FetchedRef
    from ..gitstore.store import GitStore
    from ..remote.transport import Transport

_SETTLED = b".settled"
_SETTLED_TITLE = b"amalgam settled pull 1\n"
_SETTLED_BYTES = 1 << 10
_HEAD = b".head"
_ADDRESS = b".address"
_ADDRESS_TITLE = b"amalgam remote address 1\n"
_LISTING = b".listing"
_LISTING_TITLE = b"amalgam listing 1 "
_LISTING_BYTES = 1 << 30
_SHORT_BYTES = 1 << 15
"""Of a listing of some 500 refs: shorter ones are not kept."""
_COPIED = b"copied"
_COPIED_TITLE = b"amalgam copied packs 1\n"
_MARK = b"hggit.names"
_MARK_TITLE = b"amalgam names of hg-git 1"
# refs whose lines are replaced one by one
_MOST_LISTED = 200
# sections that pulls depend on
_SECTIONS = (b"amalgam", b"experimental", b"git", b"hggit", b"paths", b"phases")
_NEW = b"refs/new/"
# more refs than these are fetched by their oids
_FEW = 500
# git says how much memory it tried to take at once, and how much it may
_OVER_LIMIT = b"over limit"
# for 360,000 objects, git takes the same time as with 96 MB
_BASES = {"core.deltaBaseCacheLimit": "16m"}
# of a table of 60 million objects
_MOST_ALLOCATED = 4 << 30
# refs that git tells a remote of, to get few objects
_MOST_HAVES = 500
_MOST_PACKS = 20


def _address_of(place: bytes) -> bytes:
    """Return the content of a file of an address."""
    digest = hashlib.sha1(place, usedforsecurity=False).hexdigest().encode()
    return _ADDRESS_TITLE + digest + b"\n"


class Fetched(FetchedRefs):
    """Fetched objects and refs, for one repository and one dialect."""

    def __init__(self, store: GitStore) -> None:
        super().__init__(store)
        self._repository = Repository(fetched_git(store), store.placement)
        self._listed: dict[bytes, bytes] = {}
        """Content of files of listings that were read or written, by name."""
        self._refs_read: dict[bytes, tuple[object, bytes]] = {}
        """Lines of files of refs, by name, with the stats of the file."""

    @property
    def git(self) -> Git:
        """Return git for the repository with the objects."""
        return self._repository.git

    def keep_refs(
        self,
        remote: bytes,
        refs: Mapping[bytes, FetchedRef] | bytes,
        transaction: Any,
    ) -> None:
        """Keep the refs of ``remote`` when ``transaction`` has ended.

        Not before: if a process dies between, bookmarks follow in the next pull.
        """

        def write(_transaction: Any) -> None:
            self.write_refs(remote, refs)

        transaction.addpostclose(b"zz-amalgam-refs", write)

    def write_refs(
        self, remote: bytes, refs: Mapping[bytes, FetchedRef] | bytes
    ) -> None:
        """Keep the refs of ``remote`` at once; remove files of killed processes.

        ``refs`` may be the content of the file.
        """
        self._directory.make(self._store.placement)
        for name in self._directory.names():
            if name.startswith(TEMPORARY):
                self._directory.remove(name)
        content = refs if isinstance(refs, bytes) else formatted(refs)
        self._directory.replace(self._file(remote), content, self._store.placement)

    def _lines(self, remote: bytes) -> bytes:
        """Return the content without its title; read again if the file has changed.

        For 100,000 refs it has 14 MB.
        """
        name, stamp = self._file(remote), None
        with contextlib.suppress(OSError, error.StorageError):
            it = self._directory.stat(name)
            stamp = (it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
        before, lines = self._refs_read.get(name, (None, b""))
        if stamp is None or before != stamp:
            lines = super()._lines(remote)
            self._refs_read[name] = (stamp, lines)
        return lines

    def has_changed_since(self, remote: bytes, time_ns: int) -> bool:
        """Return whether the refs of ``remote`` were recorded at a time, or later."""
        with contextlib.suppress(OSError, error.StorageError):
            changed_ns = self._directory.stat(self._file(remote)).st_mtime_ns
            return bool(changed_ns + TICK_NS >= time_ns)
        return False

    def begin(self, remote: bytes, place: bytes) -> None:
        """Forget the refs of ``remote`` if they are of another repository.

        Under the lock. ``place`` is that of a ``RemoteUrl``. The branches of one
        repository were not deleted in another.
        """
        if self._address(remote) not in (b"", _address_of(place)):
            refs = self._file(remote)
            for old in (refs, refs + _SETTLED, refs + _LISTING):
                self._directory.remove(old)
            self._directory.remove(self._head_file(remote))
            self._directory.remove(self._address_file(remote))

    def keep_address(self, remote: bytes, place: bytes) -> None:
        """Keep the repository that the refs of ``remote`` are of, under the lock."""
        content = _address_of(place)
        if self._address(remote) != content:
            name = self._address_file(remote)
            self._directory.make(self._store.placement)
            self._directory.replace(name, content, self._store.placement)

    def _address(self, remote: bytes) -> bytes:
        with contextlib.suppress(OSError, Unusable):
            name = self._address_file(remote)
            return self._directory.tryread(name, _SETTLED_BYTES)
        return b""

    def _address_file(self, remote: bytes) -> bytes:
        return self._head_file(remote).removesuffix(_HEAD) + _ADDRESS

    def keep_head(self, remote: bytes, bookmark: bytes) -> None:
        """Keep the bookmark of the branch that ``remote`` checks out, under the lock.

        In UTF-8; nothing if it checks out none. If a process dies before, the next
        pull keeps it.
        """
        if bookmark == self.head(remote):
            return
        name = self._head_file(remote)
        if bookmark:
            self._directory.make(self._store.placement)
            content = head_content(bookmark)
            self._directory.replace(name, content, self._store.placement)
        else:
            self._directory.remove(name)

    def keep_some(
        self,
        remote: bytes,
        names: Collection[bytes],
        refs: Mapping[bytes, FetchedRef],
        transaction: Any,
    ) -> None:
        """Keep ``refs`` in place of ``names`` when ``transaction`` has ended.

        The listing follows, if it was kept.
        """
        content = self.lines(remote).replaced(names, refs)
        listing = self.listing(remote)
        self.keep_refs(remote, content, transaction)

        def write(_transaction: Any) -> None:
            self.keep_listing(remote, _relisted(listing, changed, refs))

        changed = {*names, *refs}
        if listing and len(changed) <= _MOST_LISTED:
            transaction.addpostclose(b"zz-amalgam-refs-listing", write)

    def listing(self, remote: bytes) -> bytes:
        """Return the listing that the refs of ``remote`` have, if it was kept."""
        name = self._file(remote) + _LISTING
        with contextlib.suppress(OSError, Unusable):
            content = self._directory.tryread(name, _LISTING_BYTES)
            title = self._listing_title(remote) if content else b""
            if title and content.startswith(title):
                self._listed[name] = content
                return content[len(title) :]
        return b""

    def keep_listing(self, remote: bytes, listing: bytes) -> None:
        """Keep the listing that the refs of ``remote`` have, under the lock.

        Not if it is short: then all refs are compared soon enough.
        """
        name = self._file(remote) + _LISTING
        with contextlib.suppress(OSError, error.StorageError):
            if not self.has_listing(listing):
                self._directory.remove(name)
                return
            content = self._listing_title(remote) + listing
            if content == self._listed.get(name):
                return
            self._directory.replace(name, content, self._store.placement, durable=False)
            self._listed[name] = content

    def _listing_title(self, remote: bytes) -> bytes:
        """Return the first line of the listing that the present refs have."""
        digest = hashlib.sha1(self._lines(remote), usedforsecurity=False)
        return b"%s%s\n" % (_LISTING_TITLE, digest.hexdigest().encode())

    def mark(self) -> str:
        """Return the text of the last ``set_mark``."""
        with contextlib.suppress(Unusable):
            content = self._directory.tryread(_MARK, _SETTLED_BYTES)
            title, _line, text = content.partition(b"\n")
            if title == _MARK_TITLE:
                return text.decode("ascii", "replace")
        return ""

    def set_mark(self, text: str) -> None:
        """Note which state of hg-git's files the refs have."""
        self._directory.make(self._store.placement)
        content = b"%s\n%s" % (_MARK_TITLE, text.encode())
        self._directory.replace(_MARK, content, self._store.placement)

    def settled(self, remote: bytes, *given: object) -> str:
        """Return a digest of all that a pull from ``remote`` depends on.

        That is ``given``, the configuration, and the stats of the files of the
        repository.
        """
        repo = self._store.repo
        with contextlib.suppress(OSError, error.StorageError):
            it = self._directory.stat(self._file(remote))
            items = [[*repo.ui.configitems(section)] for section in _SECTIONS]
            state = selection.state_of(repo)
            stats = (it.st_ino, it.st_size, it.st_mtime_ns)
            place = (__version__, stats, items, state, given)
            digest = hashlib.sha1(repr(place).encode(), usedforsecurity=False)
            return digest.hexdigest()
        return ""

    def is_settled(self, remote: bytes, settled: str) -> bool:
        """Return whether a pull with this digest has found nothing to do."""
        with contextlib.suppress(OSError, Unusable):
            name = self._file(remote) + _SETTLED
            found = self._directory.tryread(name, _SETTLED_BYTES)
            return bool(settled) and found == _SETTLED_TITLE + settled.encode()
        return False

    def has_listing(self, listing: bytes) -> bool:
        """Return whether a listing is long enough to be kept."""
        return len(listing) >= _SHORT_BYTES

    def keep_settled(self, remote: bytes, settled: str) -> None:
        """Note that a pull with this digest has found nothing to do."""
        with contextlib.suppress(OSError, error.StorageError):
            name, content = self._file(remote) + _SETTLED, settled.encode()
            content = _SETTLED_TITLE + content
            self._directory.replace(name, content, self._store.placement, durable=False)

    def among(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those of ``oids`` whose objects are here."""
        if not self._repository.exists():
            return set()
        args = ("cat-file", "--batch-check=%(objectname)", "--buffer")
        asked = b"".join(b"%s\n" % oid for oid in oids)
        lines = self.git.run(*args, input=asked).stdout.splitlines()
        return {line for line in lines if b" " not in line}

    @contextlib.contextmanager
    def fetching(
        self,
        transport: Transport,
        wanted: Mapping[bytes, bytes],
        haves: Iterable[bytes],
    ) -> Iterator[tuple[Git, dict[bytes, tuple[bytes, bytes]]]]:
        """Fetch ``wanted`` for as long as the context lasts.

        These are names of refs, and oids, with the oids that the remote has shown for
        them. ``haves`` are oids of commits that were fetched before, the most useful
        ones first. The context yields git that sees all objects, and the targets of
        each name: itself, and behind tag objects. Names are missing that the remote
        lost meanwhile.
        ``RemoteFailureError`` for a part of a history, too.
        """
        lends = self._repository.exists() and not self.is_copied()
        with self._staged(haves if lends else ()) as staging:
            if lends:
                staging = staging._replace(lender=self.git)
            found = self._received(transport, staging, wanted)
            yield staging, {name: found[name] for name in wanted if name in found}

    def fetch(
        self,
        transport: Transport,
        wanted: Mapping[bytes, bytes],
        haves: Iterable[bytes],
    ) -> dict[bytes, tuple[bytes, bytes]]:
        """Fetch ``wanted`` for good, as ``fetching``, under the lock of Mercurial.

        A first fetch from a repository of this machine copies objects, which the import
        has to verify: ``is_copied``.
        """
        self._repository.set_up()
        self._repository.remove_debris()
        if not self._repository.packs():
            found = self._copied(transport, wanted)
            if found is not None:
                return found
        with self.fetching(transport, wanted, haves) as (staging, found):
            assert staging.directory is not None
            self._take(staging.directory.sub(PACKS))
        self._consolidate()
        return found

    def _copied(
        self, transport: Transport, wanted: Mapping[bytes, bytes]
    ) -> dict[bytes, tuple[bytes, bytes]] | None:
        """Let git make a pack from the files of a local remote, if it can.

        git finds all objects there, so it receives none. Its index-pack would make and
        hash each content: 20 core-seconds for octave. The conversion has to make them,
        too, and verifies them then.
        """
        lender = transport.local()
        if lender is None:
            return None
        with self._staged(()) as staging:
            assert staging.directory is not None
            packs = staging.directory.sub(PACKS)
            packs.make(self._store.placement)
            staging = staging._replace(lender=lender)
            try:
                found = self._received(transport, staging, wanted)
                oids = b"".join(b"%s\n" % oid for oid, _behind in found.values())
                args = ("--revs", "--quiet", "--delta-base-offset", packs.join(b"pack"))
                caches = {**windows(self._store.config.memory_bytes), **_BASES}
                staging.run("pack-objects", *args, input=oids, config=caches)
            except (RemoteFailureError, error.Abort):
                return None
            self._check_sizes(packs)
            self._set_copied(True)
            self._take(packs)
        return found

    def _received(
        self, transport: Transport, into: Git, wanted: Mapping[bytes, bytes]
    ) -> dict[bytes, tuple[bytes, bytes]]:
        """Fetch, within the limits of a pull; return as ``fetching``."""
        config = self._store.config
        most = max(
            min(config.max_pull_bytes, _MOST_ALLOCATED), config.max_pull_file_bytes
        )
        limits = FetchLimits(config.max_pull_bytes, most)
        try:
            return _fetched(transport, into, wanted, limits)
        except RemoteFailureError as exc:
            assert into.directory is not None
            self._check_sizes(into.directory.sub(PACKS))
            if _OVER_LIMIT in exc.reason:
                reason = b"an object takes more than %s" % util.bytecount(most)
                raise RemoteFailureError(FailureKind.LIMIT, reason) from None
            raise

    def _check_sizes(self, packs: Directory) -> None:
        """Refuse packs that are as large as git could make them, or larger."""
        most = self._store.config.max_pull_bytes
        for name in packs.names():
            if packs.stat(name).st_size >= most:
                raise RemoteFailureError(
                    FailureKind.LIMIT,
                    b"the pack is larger than %s" % util.bytecount(most),
                )

    def is_copied(self) -> bool:
        """Return whether nobody has verified the objects yet."""
        return _COPIED in self._directory.names()

    def _set_copied(self, is_copied: bool) -> None:
        """Note whether somebody has to verify the objects."""
        if is_copied:
            self._directory.replace(_COPIED, _COPIED_TITLE, self._store.placement)
        else:
            self._directory.remove(_COPIED)

    def verify(self, is_done: bool = False) -> None:
        """Note that all objects are verified; unless ``is_done``, let git do it.

        If one is wrong, all are removed.
        """
        packs = self._repository.packs_directory
        indexes = [packs.join(it) for it in packs.names() if it.endswith(b".idx")]
        try:
            if not is_done:
                self.git.run("verify-pack", *indexes)
        except error.Abort:
            self.discard()
            raise
        self._set_copied(False)

    def discard(self) -> None:
        """Remove all objects: one may have another content than its id says."""
        directory = self._repository.packs_directory
        for name in directory.names():
            directory.remove(name)
        if self.is_copied():
            self._set_copied(False)

    def _take(self, area: Directory) -> None:
        """Take the packs in ``area``, the indexes last: git sees a pack by these."""
        files = [it for it in area.names() if it.startswith(b"pack-")]
        for name in sorted(files, key=lambda it: it.endswith(b".idx")):
            fd = area.open(name)
            try:
                placement = self._store.placement
                mode = placement.file_mode & 0o444
                placement.hand_over(fd, mode, area.join(name))
                os.fsync(fd)
            finally:
                os.close(fd)
            area.rename(name, name, self._repository.packs_directory)

    @contextlib.contextmanager
    def _staged(self, haves: Iterable[bytes]) -> Iterator[Git]:
        """Make a repository with refs for the ``haves`` that are there."""
        with scratch(self._store.repo) as parent:
            path = tempfile.mkdtemp(prefix=b"fetch-", dir=parent)
            for name in (b"objects", b"refs"):
                os.mkdir(os.path.join(path, name))
            lines = [
                b"%s refs/have/%d\n" % (oid, number)
                for number, oid in enumerate(self._commits_among(haves))
            ]
            for name, content in (
                (b"packed-refs", b"# pack-refs with: \n" + b"".join(lines)),
                (b"HEAD", layout.HEAD),
                (b"config", b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
            ):
                with open(os.path.join(path, name), "wb") as file:
                    file.write(content)
            try:
                yield Git(self._store.config.program, Directory(path))
            finally:
                shutil.rmtree(path, ignore_errors=True)

    def _commits_among(self, oids: Iterable[bytes]) -> list[bytes]:
        asked = [*dict.fromkeys(itertools.islice(oids, _MOST_HAVES))]
        there = self.among(asked)
        return [oid for oid in asked if oid in there]

    def _consolidate(self) -> None:
        """Let few packs have all objects."""
        if len(self._repository.packs()) > _MOST_PACKS:
            args = ("repack", "-d", "-q", "--geometric=2", "--no-write-bitmap-index")
            self.git.run(*args)


def _relisted(
    listing: bytes, names: Iterable[bytes], refs: Mapping[bytes, FetchedRef]
) -> bytes:
    """Return a listing with ``refs`` in place of ``names``; new ones come last."""
    new: list[bytes] = []
    for name in sorted(names):
        found = listing.find(b"\t%s\n" % name)
        start = listing.rfind(b"\n", 0, found) + 1 if found >= 0 else len(listing)
        end = start
        for of_name in (name, name + b"^{}"):
            line = listing[end : listing.find(b"\n", end) + 1]
            if line.endswith(b"\t%s\n" % of_name):
                end += len(line)
        lines = b""
        if name in refs:
            oid, commit, _node = refs[name]
            lines = b"%s\t%s\n" % (oid, name)
            if commit != oid:
                lines += b"%s\t%s^{}\n" % (commit, name)
        if found < 0:
            new.append(lines)
        else:
            listing = b"".join((listing[:start], lines, listing[end:]))
    return b"".join((listing, *new))


def _fetched(
    transport: Transport,
    into: Git,
    wanted: Mapping[bytes, bytes],
    limits: FetchLimits,
) -> dict[bytes, tuple[bytes, bytes]]:
    """Fetch, and return the oid of each name, and the one behind tag objects."""
    if len(wanted) > _FEW:
        # git writes a file for each ref that it fetches by name
        oids = sorted({*wanted.values()})
        try:
            _fetch(transport, into, oids, limits)
        except RemoteFailureError as exc:
            if exc.kind in (FailureKind.LOGIN, FailureKind.TRANSIENT):
                raise
        else:
            behind = _behind(into, oids)
            return {
                name: (oid, behind[oid])
                for name, oid in wanted.items()
                if oid in behind
            }
        # an old server gives refs only; or one has just lost a ref
        spaces = {b"/".join((*name.split(b"/")[:2], b"*")) for name in wanted}
        plain = {name for name in wanted if b"/" not in name}
        sources = {it for it in spaces if it.startswith(b"refs/")} | plain
        specs = [b"+%s:%s%s" % (it, _NEW, it.removeprefix(b"refs/")) for it in sources]
        _fetch(transport, into, specs, limits)
        # no files: Python cannot remove as many directories as a name has slashes
        into.run("pack-refs", "--all")
        found = _found(into)
        return {it if it in plain else b"refs/" + it: found[it] for it in found}
    names = sorted(wanted)
    specs = [b"+%s:%s%d" % (it, _NEW, number) for number, it in enumerate(names)]
    _fetch(transport, into, specs, limits)
    return {names[int(it)]: targets for it, targets in _found(into).items()}


def _fetch(
    transport: Transport, into: Git, specs: Sequence[bytes], limits: FetchLimits
) -> None:
    # always packs; and nothing else is written
    settings = {"fetch.unpackLimit": "1", "transfer.unpackLimit": "1"}
    settings |= {"fetch.writeCommitGraph": "false", "core.logAllRefUpdates": "false"}
    # git leaves out what needs commits that the remote has not
    for line in transport.fetch(into, specs, settings, limits):
        if b"shallow roots" in line:
            raise RemoteFailureError(FailureKind.RULE, line)


def _found(git: Git) -> dict[bytes, tuple[bytes, bytes]]:
    """Return the targets of all fetched refs, by their names after ``_NEW``."""
    listing = ("for-each-ref", "--format=%(objectname) %(refname)", _NEW.decode())
    lines = [line.split(b" ", 1) for line in git.run(*listing).stdout.splitlines()]
    behind = _behind(git, [oid for oid, _name in lines])
    return {name.removeprefix(_NEW): (oid, behind[oid]) for oid, name in lines}


def _behind(git: Git, oids: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the objects behind tag objects; those without an object are left out."""
    asked = b"".join(b"%s^{}\n" % oid for oid in oids)
    args = ("cat-file", "--batch-check=%(objectname)", "--buffer")
    lines = git.run(*args, input=asked).stdout.splitlines()
    return {oid: it for oid, it in zip(oids, lines, strict=True) if b" " not in it}
