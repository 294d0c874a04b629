"""Publication: from a generated file to bytes that clients can read, and back.

A bundle is named after its content and never changes. It goes into a directory, into an
object store (``newbundle`` has uploaded it while it was written), or to the operator's
command. It is advertised only after its published bytes were read back and compared.
For generators only.

In an object store, an entry is lost if its object is missing. An orphan is an object or
upload with a key of this repository, without an entry, and older than the retention.
Nothing else in the bucket is touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import types
import urllib.error
from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import error, url as urlmod
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..config import BundlesConfig
from ..configitems import CINNABAR_V1
from ..files import TEMPORARY
from ..records import Record
from ..terminal import one_line, printable
from ..trust import Trust
from . import keys, locations, objectstore, validity
from .formats import kind_of, suffix_of
from .register import NAME, Entry, Register, directory_of, is_address, require_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from mercurial.interfaces.types import RepoT, UiT

    from .newbundle import NewBundle

    _Delete: TypeAlias = Callable[[Entry], None]


_TRIES = 3
_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = b"60"
_CHUNK_BYTES = 1 << 20


def publish(
    repo: RepoT,
    bundle: Any,
    made: NewBundle,
    upload: Callable[[RepoT, Any], Any],
    delete: _Delete,
) -> Any:
    """Publish a new bundle, and return ``bundle`` as a ready one.

    Name, place and size are filled in. ``upload`` is that of Mercurial's extension,
    which runs the operator's command. ``delete`` as for ``sweep``.
    """
    ui, entry = repo.ui, made.entry
    if made.store:
        return _publish_stored(repo, bundle, entry, delete)
    with made.open() as file:
        entry.bytes = os.fstat(file.fileno()).st_size
        digest = _digest(ui, _(b"reading bundle"), file, entry.bytes)
        os.fsync(file.fileno())
    name = digest.encode() + suffix_of(bundle.bundle_type)
    entry.name = name.decode()
    made.rename(name)
    uploaded = locations.uploads(ui)
    if not uploaded:
        entry.path = locations.chosen_directory(repo)
        entry.url = os.fsdecode(locations.url_of_directory(ui, name))
        _check_address(entry.url)
    # before the first byte leaves: a recorded upload can be deleted
    register = Register.read(repo)
    _leave_former_place(repo, register, entry, delete)
    register.entries[entry.name] = entry
    register.write(repo)
    if uploaded:
        with ui.makeprogress(_(b"uploading"), unit=_(b"bundles"), total=1) as bar:
            bar.update(0, item=name)
            path = made.directory.join(name)
            ready = upload_file(repo, path, upload, bundle.uploaded)
            bar.update(1, item=name)
        _check_address(os.fsdecode(ready.file_url))
        entry.url = os.fsdecode(ready.file_url)
        register.write(repo)
    else:
        with locations.writing(entry.path):
            directory = locations.make_directory(repo, entry.path)
            placement = locations.placement_at(repo, entry.path)
            locations.move_file(made.directory, name, directory, placement)
        ready = bundle.uploaded(os.fsencode(entry.url), name)
    _check_readable(repo, entry, digest)
    return ready


def _publish_stored(repo: RepoT, bundle: Any, entry: Entry, delete: _Delete) -> Any:
    """Publish a bundle in the object store, under its key."""
    name = entry.name.encode()
    register = Register.read(repo)
    former = register.entries.get(entry.name)
    if former is not None and former.path == entry.path:
        # clients may be reading it; the new object, no bundle's, is deleted
        entry.key = former.key
    else:
        _leave_former_place(repo, register, entry, delete)
        del register.uploads[entry.key]
    entry.url = objectstore.url_of(repo.ui, entry.key, name)
    _check_address(entry.url)
    register.entries[entry.name] = entry
    register.write(repo)
    _check_readable(repo, entry, entry.name.partition(".")[0])
    if kind_of(bundle.bundle_type) == CINNABAR_V1:
        _check_missing(repo, entry)
    return bundle.uploaded(os.fsencode(entry.url), name)


def _leave_former_place(
    repo: RepoT, register: Register, entry: Entry, delete: _Delete
) -> None:
    """Delete a bundle of the same name, if it is elsewhere.

    The register has one place for each.
    """
    former = register.entries.get(entry.name, entry)
    if former.path != entry.path and not _delete(repo, former, delete):
        raise error.Abort(
            _(b"bundle %s has to be deleted in its former place first")
            % entry.name.encode(),
            hint=_(b"see 'hg admin::amalgam'"),
        )


def _check_address(url: str) -> None:
    if not is_address(url):
        raise error.ConfigError(
            _(b"invalid URL of a bundle: '%s'") % printable(os.fsencode(url)),
            hint=_(b"URLs in manifests must not contain spaces"),
        )


def upload_file(
    repo: RepoT,
    path: bytes,
    upload: Callable[..., Any],
    uploaded: Callable[..., Any] = lambda *_args: None,
) -> Any:
    """Upload a file under its own name; ``upload`` as for ``publish``.

    Returns the result of ``uploaded`` for its URL and name.
    """
    # the extension tells the command the name of the file that it was to make
    return upload(repo, types.SimpleNamespace(filepath=path, uploaded=uploaded))


def _check_readable(repo: RepoT, entry: Entry, digest: str) -> None:
    """Abort unless clients get exactly the generated bytes."""
    is_here = not entry.key and locations.is_relative_url(os.fsencode(entry.url))
    problem = b""
    for remaining in reversed(range(_TRIES)):
        try:
            with contextlib.closing(_open(repo, entry)) as file:
                topic = _(b"checking bundle")
                found = _digest(repo.ui, topic, file, entry.bytes)
        except (OSError, error.Abort, error.StorageError) as exc:
            problem = _reason(exc)
        else:
            if found == digest:
                return
            problem = _(b"its content differs")
        if is_here:
            break
        if remaining:
            time.sleep(_PAUSE_SECONDS)
    raise error.Abort(
        _(b"cannot read published bundle: %s: '%s'")
        % (printable(problem), printable(_shown(entry))),
        hint=_hint(repo, entry),
    )


def _check_missing(repo: RepoT, entry: Entry) -> None:
    """Abort unless git-cinnabar can see that a bundle is no repository.

    It asks for ``info/refs`` below the address first, and takes every answer but 404
    for a repository. Many buckets answer 403. With links, hgweb answers.
    """
    if locations.is_relative_url(os.fsencode(entry.url)):
        return
    url = os.fsencode(entry.url) + b"/info/refs?service=git-upload-pack"
    try:
        with contextlib.closing(_opened(repo, url)):
            status = 200
    except urllib.error.HTTPError as exc:
        status = exc.code
    except (OSError, error.Abort) as exc:
        raise error.Abort(_(b"cannot read '%s': %s") % (url, _reason(exc))) from None
    if status != 404:
        raise error.Abort(
            _(b"status of '%s' is %d (expected 404)") % (printable(url), status),
            hint=_(
                b"git-cinnabar needs that; a bucket of S3 answers 403 "
                b"unless everybody has s3:ListBucket"
            ),
        )


def _shown(entry: Entry) -> bytes:
    """Return where a bundle is: no link, which is a secret."""
    if entry.key and locations.is_relative_url(os.fsencode(entry.url)):
        return f"{entry.path}/{entry.key}".encode()
    return os.fsencode(entry.url)


def _hint(repo: RepoT, entry: Entry) -> bytes:
    is_elsewhere = (
        entry.path
        and not entry.key
        and not locations.is_relative_url(os.fsencode(entry.url))
    )
    external = BundlesConfig.from_ui(repo.ui).external
    if (
        is_elsewhere
        and not external
        and not locations.is_directory_for_all(repo, entry.path)
    ):
        return _(
            b"only users who can read the repository may read it; "
            b"to let others read it, set amalgam.bundles.external = yes"
        )
    return _(b"it is not advertised; try again when it can be read there")


def _reason(exc: Exception) -> bytes:
    """Return the cause of an error of urllib."""
    has_reason = isinstance(exc, urllib.error.URLError) and not hasattr(exc, "code")
    return stringutil.forcebytestr(getattr(exc, "reason", exc) if has_reason else exc)


def _open(repo: RepoT, entry: Entry) -> Any:
    url = os.fsencode(entry.url)
    if entry.key and locations.is_relative_url(url):
        seconds = BundlesConfig.from_ui(repo.ui).link_seconds
        client = objectstore.client_of(entry.path)
        return _opened(repo, client.link(entry.key, seconds).encode())
    if locations.is_relative_url(url):
        directory = locations.directory_at(repo, entry.path)
        assert directory is not None
        return os.fdopen(directory.open(entry.name.encode()), "rb")
    return _opened(repo, url)


def _opened(repo: RepoT, url: bytes) -> Any:
    ui = repo.ui
    # a server that hangs must not keep the lock of generators for ever
    timeout = ui.config(b"http", b"timeout") or _TIMEOUT_SECONDS
    with ui.configoverride({(b"http", b"timeout"): timeout}, b"amalgam"):
        return urlmod.open(ui, url)


def _digest(ui: UiT, topic: bytes, file: Any, total: int) -> str:
    digest = hashlib.sha256()
    with ui.makeprogress(topic, unit=_(b"bytes"), total=total) as progress:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            progress.increment(len(chunk))
    return digest.hexdigest()


def retire(register: Register, name: str, *, at_once: bool) -> None:
    """Note that a bundle is no longer advertised, and not needed if ``at_once``."""
    entry = register.entries.get(name)
    if entry is not None:
        entry.retired = None if at_once else entry.retired or time.time()


def sweep(repo: RepoT, live: Iterable[bytes], delete: _Delete) -> None:
    """Delete bundles that nobody needs any more. Only after the manifests.

    ``live``: the names of ready bundles. ``delete``: deletes an uploaded one; if it
    fails, the next run tries again.
    """
    require_lock(repo)
    register = Register.read(repo)
    config = BundlesConfig.from_ui(repo.ui)
    wanted = frozenset(os.fsdecode(name) for name in live)
    now = time.time()
    for entry in list(register.entries.values()):
        if entry.name in wanted:
            entry.retired = None
            continue
        if not validity.may_be_named(repo, entry):
            entry.retired = None
        # never retired means never advertised
        if entry.retired is not None and now < entry.retired + config.retention_seconds:
            continue
        if _delete(repo, entry, delete):
            del register.entries[entry.name]
    for key, place in list(register.uploads.items()):
        if objectstore.delete_object(repo, key, place):
            del register.uploads[key]
    register.write(repo)
    _sweep_strays(repo, register)
    entries = register.entries.values()
    used = frozenset(name for entry in entries for name in (entry.heads, entry.reached))
    validity.sweep_heads(repo, used)


def _delete(repo: RepoT, entry: Entry, delete: _Delete) -> bool:
    """Delete the file of a bundle, or warn and return ``False``.

    Files outside of our directories stay and are forgotten.
    """
    if entry.key:
        return objectstore.delete_object(repo, entry.key, entry.path)
    name = entry.name.encode()
    directory = locations.directory_at(repo, entry.path)
    if entry.path and directory is None:
        path = os.path.join(os.fsencode(entry.path), name)
        repo.ui.warn(one_line(_(b"warning: bundle is not deleted: %s") % path))
        repo.ui.warn(_(b"(its directory is not amalgam.bundles.directory)\n"))
        return True
    try:
        if directory is None:
            delete(entry)
        else:
            locations.remove_file(directory, name)
    except (OSError, error.Abort, error.StorageError) as exc:
        text = _(b"warning: cannot delete bundle %s: %s")
        text %= (name, stringutil.forcebytestr(exc))
        repo.ui.warn(one_line(text))
        return False
    return True


def _sweep_strays(repo: RepoT, register: Register) -> None:
    """Delete unknown files in the directory that only amalgam uses."""
    directory = directory_of(repo)
    for name in directory.names():
        known = os.fsdecode(name) in register.entries
        if name.startswith(TEMPORARY) or (NAME.fullmatch(name) and not known):
            directory.remove(name)


class StoreContents(Record):
    """A store at a glance."""

    objects: int
    """Orphans of this repository."""
    lost: frozenset[str]
    """Names of bundles whose object is gone, or has another size."""
    orphans: tuple[objectstore.StoredObject, ...]

    @property
    def orphan_bytes(self) -> int:
        """Return the size of the orphans, without uploads that were not finished."""
        return sum(orphan.bytes for orphan in self.orphans)


def compare_store(repo: RepoT) -> StoreContents | None:
    """Compare the object store with the register; ``None`` if no store is used.

    ``StorageError`` or ``ConfigError`` if the store does not answer.
    """
    place = objectstore.chosen_store(repo.ui)
    if not place or not Trust.of(repo.ui, repo.store.path, repo.path).usable:
        return None
    client = objectstore.client_of(place)
    owner = keys.owner_of(repo)
    found = {it.key: it for it in client.objects() if _is_of(owner, it.key)}
    begun = [it for it in client.unfinished(owner) if _is_of(owner, it.key)]
    register = Register.read(repo)
    entries = [entry for entry in register.entries.values() if entry.key]
    needed = frozenset(entry.key for entry in entries)
    retention = BundlesConfig.from_ui(repo.ui).retention_seconds
    return StoreContents(
        objects=len(found),
        lost=frozenset(
            entry.name
            for entry in entries
            if objectstore.is_in_store(repo, entry) and not _is_whole(entry, found)
        ),
        orphans=tuple(
            it
            for it in [*found.values(), *begun]
            if it.key not in needed and objectstore.age_seconds(it) > retention
        ),
    )


def withdraw_lost(repo: RepoT, contents: StoreContents | None) -> bool:
    """Remove lost bundles from the state; return whether any was lost.

    For generators only. All manifests must be written afterwards: then lost bundles
    leave the register, and can be made again.
    """
    if contents is None or not contents.lost:
        return False
    register = Register.read(repo)
    for name in contents.lost:
        text = _(b"warning: bundle is gone from the object store: %s")
        repo.ui.warn(one_line(text % register.entries[name].key.encode()))
        retire(register, name, at_once=True)
    register.write(repo)
    with repo.clonebundles_lock():
        bundles = [it for it in clonebundles.read_auto_gen(repo) if it.ready]
        gone = [it for it in bundles if os.fsdecode(it.basename) in contents.lost]
        clonebundles.update_bundle_list(repo, del_bundles=gone)
    return True


def remove_orphans(repo: RepoT, contents: StoreContents) -> None:
    """Remove orphans. For generators only: another one may be uploading."""
    client = objectstore.client_of(objectstore.chosen_store(repo.ui))
    for orphan in contents.orphans:
        if orphan.upload:
            client.abort(orphan)
        else:
            client.discard(orphan.key)


def _is_of(owner: str, key: str) -> bool:
    found = keys.KEY.fullmatch(key)
    return found is not None and found[1] == owner


def _is_whole(entry: Entry, found: dict[str, objectstore.StoredObject]) -> bool:
    return entry.key in found and found[entry.key].bytes == entry.bytes
