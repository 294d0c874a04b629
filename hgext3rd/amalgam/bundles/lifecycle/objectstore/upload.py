"""A bundle on its way into an object store while it is still being written.

The writer sees a file, which is a FIFO. A thread reads it, hashes, and uploads. So no
more of a bundle is on this machine than some parts of it, in memory. The object exists
once the last part is confirmed, and not before the writer has said that the bundle is
whole: a writer that fails closes its file, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .storeclient import StoreClient

_PIECE_BYTES = 1 << 20


class BundleUpload:
    """What went through the FIFO so far."""

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
        """SHA-256 of what was uploaded."""
        return self._digest.hexdigest()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def end(self, *, is_whole: bool, last_writer: int) -> None:
        """Wait until the object is there, or the upload is aborted.

        ``last_writer``: a descriptor that kept the FIFO from ending, closed here.
        Raises what kept the bundle from being uploaded.
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
    """Upload what is written to ``path`` as long as the context lasts.

    When it ends, the object is there, with the digest that is known then. If it ends
    by an exception, there is none.
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
