"""Bundles in an object store: access, decision, links, and uploads while writing.

Access is by the library obstore. boto3 finds credentials of S3, as for all programs of
its users, and removes unfinished uploads, which obstore does not show. Both are
imported only when a store is used.

A bundle has a URL below ``amalgam.bundles.public-url``; or, with links, the URL of
hgweb, which answers with a link. A link is made for each request and kept nowhere.
While it is valid, it is a secret: it is in no error and no log. Nor are credentials.

The writer of a bundle (``newbundle``) writes into a FIFO. A thread reads it, hashes,
and uploads, so only some parts of the bundle are on this machine, in memory. The object
exists after the last part is confirmed, and only if the writer has succeeded: a failing
writer closes its file, too.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import importlib
import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import hgdemandimport
from mercurial import error
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..config import BundlesConfig
from ..records import Record
from ..terminal import one_line, printable
from ..trust import Trust
from . import keys, locations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mercurial.interfaces.types import RepoT, UiT

    from .register import Entry


PART_BYTES = 16 << 20
"""A store takes 10,000 parts, so no bundle is larger than 156 GB."""
_PARTS_AT_A_TIME = 2
_LONGEST_SHOWN = 200
# a part may take that long: some 20 kB a second
_REQUEST_SECONDS = 900
_CONNECT_SECONDS = 10
# with growing pauses, 13 seconds in all
_TRIES = 7
_FRESH_SECONDS = 600
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,60})</Code>")
_STATUS = re.compile(r"\b[45]\d\d [A-Z][A-Za-z ]{1,40}")

_BUNDLE_TYPE = "application/octet-stream"
_FOR_EVER = "max-age=31536000, immutable"
_LIST = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-cache"}

_lock = threading.Lock()


class StoredObject(Record):
    """Entry of a store's list: an object, or an unfinished upload."""

    key: str
    bytes: int
    modified: float
    """Seconds since the epoch; when it was begun, if it is not finished."""
    upload: str = ""
    """The store's name for the upload; empty for an object."""


def client_of(url: str) -> StoreClient:
    """Return the store at ``url``, one of ``config.STORE``.

    ``ConfigError`` if a library or credentials are missing. Nothing is sent yet.
    """
    with _lock:  # threads of hgweb
        return _client_of(url)


@functools.cache
def _client_of(url: str) -> StoreClient:
    return StoreClient(url)


class StoreClient:
    """A prefix in a bucket. Every failure is a ``StorageError``."""

    def __init__(self, url: str) -> None:
        self._url = url
        scheme, _colon, rest = url.partition("://")
        self._bucket, slash, prefix = rest.partition("/")
        self._prefix = prefix + slash
        self._obstore = _imported("obstore")
        self._boto: Any = None
        stores = _imported("obstore.store")
        options: dict[str, Any] = {
            "client_options": {
                "timeout": datetime.timedelta(seconds=_REQUEST_SECONDS),
                "connect_timeout": datetime.timedelta(seconds=_CONNECT_SECONDS),
            },
            "retry_config": {
                "max_retries": _TRIES,
                "retry_timeout": datetime.timedelta(seconds=_REQUEST_SECONDS),
            },
        }
        with self._blamed():
            if scheme == "s3":
                self._store = self._s3(stores, options)
            elif scheme == "gs":
                self._store = stores.GCSStore(self._bucket, **options)
            else:
                self._store = stores.AzureStore(self._bucket, **options)

    def _s3(self, stores: Any, options: dict[str, Any]) -> Any:
        session = _imported("boto3").Session()
        found = session.get_credentials()
        if found is None:
            raise error.ConfigError(
                _(b"no credentials for %s") % self._url.encode(),
                hint=_(b"set AWS_PROFILE, or AWS_ACCESS_KEY_ID and its secret"),
            )
        style = {"addressing_style": "path"}
        config = _imported("botocore.config").Config(
            s3=style, connect_timeout=_CONNECT_SECONDS
        )
        self._boto = session.client("s3", config=config)
        known: dict[str, Any] = {"region": self._boto.meta.region_name or "us-east-1"}
        endpoint = str(self._boto.meta.endpoint_url)
        if ".amazonaws.com" not in endpoint:
            known["endpoint"] = endpoint
            # http:// was the operator's choice; requests are signed, and carry no
            # secret
            options["client_options"]["allow_http"] = endpoint.startswith("http://")

        def credentials() -> dict[str, Any]:
            frozen = found.get_frozen_credentials()
            soon = datetime.timedelta(seconds=_FRESH_SECONDS)
            return {
                "access_key_id": frozen.access_key,
                "secret_access_key": frozen.secret_key,
                "token": frozen.token,
                "expires_at": datetime.datetime.now(datetime.timezone.utc) + soon,
            }

        return stores.S3Store(
            self._bucket, config=known, credential_provider=credentials, **options
        )

    def put(self, key: str, pieces: Iterable[bytes], *, is_private: bool) -> None:
        """Upload ``pieces`` as an object.

        They are sent in parts, of which two are in memory while a third is collected. A
        failed part is sent again. If ``pieces`` or the store fail, the upload is
        aborted, and no object exists.
        """
        cache = f"{'private' if is_private else 'public'}, {_FOR_EVER}"
        with self._blamed():
            self._obstore.put(
                self._store,
                self._prefix + key,
                pieces,
                attributes={"Content-Type": _BUNDLE_TYPE, "Cache-Control": cache},
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=_PARTS_AT_A_TIME,
            )

    def replace(self, name: str, content: bytes) -> None:
        """Make a small object that may change, or replace it as a whole."""
        with self._blamed():
            self._obstore.put(
                self._store,
                self._prefix + name,
                content,
                attributes=_LIST,
                use_multipart=False,
            )

    def discard(self, key: str) -> None:
        """Delete an object and its unfinished uploads, if they exist."""
        for unfinished in self.unfinished(key):
            self.abort(unfinished)
        with self._blamed(), contextlib.suppress(FileNotFoundError):
            self._obstore.delete(self._store, self._prefix + key)

    def objects(self) -> Iterator[StoredObject]:
        """Yield the objects directly below the prefix."""
        with self._blamed():
            listed = self._obstore.list_with_delimiter(
                self._store, self._prefix or None
            )
        for found in listed["objects"]:
            key = str(found["path"]).removeprefix(self._prefix)
            modified = found["last_modified"].timestamp()
            yield StoredObject(key, int(found["size"]), modified)

    def unfinished(self, key: str = "") -> Iterator[StoredObject]:
        """Yield the uploads that are not finished, of keys that begin with ``key``.

        Nothing where the store does not tell: Azure removes them after a week, and a
        rule of the bucket does so for Google's.
        """
        if self._boto is None:
            return
        with self._blamed():
            pages = self._boto.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix + key
            )
            for page in pages:
                for found in page.get("Uploads", ()):
                    name = found["Key"].removeprefix(self._prefix)
                    begun = found["Initiated"].timestamp()
                    yield StoredObject(name, 0, begun, found["UploadId"])

    def abort(self, unfinished: StoredObject) -> None:
        """Remove an upload that is not finished; nothing if it is gone."""
        with self._blamed():
            try:
                self._boto.abort_multipart_upload(
                    Bucket=self._bucket,
                    Key=self._prefix + unfinished.key,
                    UploadId=unfinished.upload,
                )
            except self._boto.exceptions.NoSuchUpload:
                return

    def link(self, key: str, seconds: int) -> str:
        """Return a web address by which an object can be read for so long."""
        with self._blamed():
            expires = datetime.timedelta(seconds=seconds)
            path = self._prefix + key
            return str(self._obstore.sign(self._store, "GET", path, expires))

    @contextlib.contextmanager
    def _blamed(self) -> Iterator[None]:
        """Let an error of the libraries, which have no base in common, be ours."""
        try:
            yield
        except error.Error:
            raise
        except Exception as exc:
            if isinstance(exc.__cause__, error.Error):
                raise exc.__cause__ from None
            raise error.StorageError(
                _(b"object store %s: %s") % (self._url.encode(), _reason(exc)),
                hint=_(b"check its address, the permissions, and the free space"),
            ) from None


def _imported(name: str) -> Any:
    try:
        with hgdemandimport.deactivated():
            return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0].encode()
        raise error.ConfigError(
            _(b"amalgam.bundles.url needs the Python package %s") % package,
            hint=_(b"install it with 'pip install hg-amalgam[s3]'"),
        ) from None


def _reason(exc: Exception) -> bytes:
    """Return an error in one line, without keys, signatures and addresses.

    Libraries put the whole answer of a server into their errors.
    """
    text = str(exc)
    named = [found[0] for found in (_STATUS.search(text),) if found]
    named += [found[1] for found in (_CODE.search(text),) if found]
    if not named:
        line = text.partition("\n")[0]
        line = re.sub(r"https?://\S+", "...", line)
        named = [line[:_LONGEST_SHOWN] or type(exc).__name__]
    return printable(", ".join(named).encode("utf-8", "replace"))


def age_seconds(found: StoredObject) -> float:
    """Return how long ago an object was made, by the clocks of store and machine."""
    return time.time() - found.modified


def may_hold(ui: UiT) -> bool:
    """Return whether bundles of a repository may be in the store.

    Links have the permissions of hgweb.
    """
    config = BundlesConfig.from_ui(ui)
    if config.link_seconds and config.external is None:
        return True
    return locations.may_name_url(ui)


def chosen_store(ui: UiT) -> str:
    """Return the store where new bundles are put; empty if it is none."""
    config = BundlesConfig.from_ui(ui)
    return config.store.decode() if config.store and may_hold(ui) else ""


def has_list(ui: UiT) -> bool:
    """Return whether a list of bundles belongs into the store."""
    return bool(chosen_store(ui)) and not BundlesConfig.from_ui(ui).link_seconds


def url_of(ui: UiT, key: str, name: bytes) -> str:
    """Return the address of the object ``key``, the bundle ``name``."""
    config = BundlesConfig.from_ui(ui)
    if config.link_seconds:
        return os.fsdecode(locations.relative_url(name))
    return f"{os.fsdecode(config.public_url)}/{key}" if config.public_url else ""


def is_in_store(repo: RepoT, entry: Entry) -> bool:
    """Return whether an entry is of this repository and the configured store.

    In a copy of a repository, the register is the original's.
    """
    config = BundlesConfig.from_ui(repo.ui)
    return (
        entry.path.encode() == config.store
        and entry.url == url_of(repo.ui, entry.key, entry.name.encode())
        and keys.is_of(repo, entry.key)
    )


def is_exposed(repo: RepoT, entry: Entry) -> bool:
    """Return whether an entry is in a place that is not permitted (any more)."""
    if entry.path.encode() == BundlesConfig.from_ui(repo.ui).store:
        return not may_hold(repo.ui)
    return not locations.may_name_url(repo.ui)


def link_to(repo: RepoT, entry: Entry) -> bytes:
    """Return a link to a bundle; empty if none can be made.

    Clients of Mercurial and git get it directly: they follow no redirects.
    """
    ui = repo.ui
    seconds = BundlesConfig.from_ui(ui).link_seconds
    trust = Trust.of(ui, repo.store.path, repo.path)
    if not entry.key or not seconds or not trust.usable or not is_in_store(repo, entry):
        return b""
    try:
        return client_of(entry.path).link(entry.key, seconds).encode()
    except (error.Abort, error.StorageError) as exc:
        ui.log(b"amalgam", b"no link to a bundle: %s\n", stringutil.forcebytestr(exc))
        return b""


def direct_address(repo: RepoT, entry: Entry, base: bytes) -> bytes:
    """Return a link, or the address for clients of a bundle that has none.

    ``base`` as for ``urls.absolute``.
    """
    return link_to(repo, entry) or locations.absolute_url(os.fsencode(entry.url), base)


def delete_object(repo: RepoT, key: str, place: str) -> bool:
    """Delete an object and its uploads, or warn and return ``False``.

    Objects of another repository, or in another store, stay and are forgotten.
    """
    ui = repo.ui
    if place.encode() != BundlesConfig.from_ui(ui).store or not keys.is_of(repo, key):
        path = f"{place}/{key}".encode()
        ui.warn(one_line(_(b"warning: bundle is not deleted: %s") % path))
        ui.warn(_(b"(it is of another repository, or not in amalgam.bundles.url)\n"))
        return True
    try:
        client_of(place).discard(key)
    except (error.Abort, error.StorageError) as exc:
        text = _(b"warning: cannot delete bundle %s: %s")
        text %= (key.encode(), stringutil.forcebytestr(exc))
        ui.warn(one_line(text))
        return False
    return True


_PIECE_BYTES = 1 << 20


class BundleUpload:
    """Count and hash of the bytes that went through the FIFO."""

    def __init__(
        self, client: StoreClient, key: str, source: int, *, is_private: bool
    ) -> None:
        self.bytes = 0
        self.head = b""
        """The first bytes, at most a piece."""
        self._client = client
        self._key = key
        self._source = source
        self._is_private = is_private
        self._digest = hashlib.sha256()
        self._is_whole = False
        self._problem: BaseException | None = None
        # a process that ends does not wait for it
        self._thread = threading.Thread(target=self._upload, daemon=True)

    @property
    def digest(self) -> str:
        """SHA-256 of the uploaded bytes."""
        return self._digest.hexdigest()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def end(self, *, is_whole: bool, last_writer: int) -> None:
        """Wait until the object exists, or the upload is aborted.

        ``last_writer``: a descriptor that kept the FIFO open, closed here. Raises the
        error of the upload.
        """
        self._is_whole = is_whole
        os.close(last_writer)
        self._thread.join()
        if self._problem is not None and not isinstance(self._problem, _CutError):
            raise self._problem

    def _upload(self) -> None:
        try:
            pieces = self._pieces()
            self._client.put(self._key, pieces, is_private=self._is_private)
        except BaseException as exc:
            self._problem = exc
        finally:
            os.close(self._source)  # a writer that still writes gets an error

    def _pieces(self) -> Iterator[bytes]:
        with open(self._source, "rb", closefd=False) as file:
            while piece := file.read(_PIECE_BYTES):
                self.head = self.head or piece
                self.bytes += len(piece)
                self._digest.update(piece)
                yield piece
        if not self._is_whole:
            raise _CutError(_(b"bundle is not whole"))


class _CutError(error.StorageError):
    """The writer failed, and knows why."""


@contextlib.contextmanager
def streamed(
    client: StoreClient, key: str, path: bytes, *, is_private: bool
) -> Iterator[BundleUpload]:
    """Upload the bytes written to ``path`` during the context.

    At its end, the object exists, and its digest is known. If it ends by an exception,
    no object exists.
    """
    os.mkfifo(path, 0o600)
    # a reader and a writer of our own: neither side waits for the other to open it
    source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    last_writer = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.set_blocking(source, True)
    upload = BundleUpload(client, key, source, is_private=is_private)
    upload.start()
    try:
        yield upload
    except BaseException:
        upload.end(is_whole=False, last_writer=last_writer)
        raise
    upload.end(is_whole=True, last_writer=last_writer)
