"""Bundles over HTTP by hgweb, to whom the repository allows ``pull``.

Answers below ``amalgam/bundles`` of a repository's URL: the files that the register
knows, and ``bundles.list``. All else is 404 there, so that git takes no bundle for a
repository. A file never changes: a download that was interrupted goes on where it was
(RFC 9110, section 14).
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from mercurial import error, pycompat
from mercurial.hgweb import common

from ..clonebundles import (
    advertise,
    locations,
    objectstore,
    register as registers,
    validity,
)
from ..loading import load
from .httprequest import Connection, is_body_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mercurial.interfaces.types import RepoT

    from ..clonebundles.register import Entry
    from ..files import Directory

_FOR_GIT = b".bundle"
_CHUNK_BYTES = 1 << 17
_RANGE = re.compile(rb"bytes=(\d*)-(\d*)")
_MOST_DIGITS = 20
"""Of a position; more are beyond any file, and Python refuses thousands."""


def handle_request(
    orig: Callable[..., bool], rctx: Any, req: Any, res: Any, checkperm: Any
) -> bool:
    """Answer a request for a bundle; leave all others to Mercurial."""
    load(sys.modules[__name__])
    path = req.dispatchpath or b""
    if path != locations.ROUTE and not locations.is_relative_url(path):
        return orig(rctx, req, res, checkperm)
    connection = Connection(req)
    is_plain = not connection.is_ambiguous and is_body_empty(req)
    if not is_plain:
        connection.close_after_answer()
    try:
        checkperm(rctx, req, b"pull")
        allowed = (b"Allow", b"GET, HEAD, OPTIONS")
        if req.method not in (b"GET", b"HEAD", b"OPTIONS"):
            raise common.ErrorResponse(
                common.HTTP_METHOD_NOT_ALLOWED, headers=[allowed]
            )
        if not is_plain:
            raise common.ErrorResponse(common.HTTP_BAD_REQUEST, b"no body expected")
        if req.method == b"OPTIONS":
            res.status = b"200 OK"
            res.headers[allowed[0]] = allowed[1]
            res.setbodybytes(b"")
            return True
        name = path[len(locations.ROUTE) + 1 :]
        if req.rawenv.get(b"PATH_INFO", b"").endswith(b"/"):
            name = b""  # hgweb has removed the slash; directories are not served here
        _answer(rctx.repo, name, req, res)
    except common.ErrorResponse as exc:
        for name, value in exc.headers:
            res.headers[name] = value
        res.status = common.statusmessage(exc.code, pycompat.bytestr(exc))
        res.headers[b"Content-Type"] = b"text/plain; charset=utf-8"
        _set_body(req, res, res.status[4:] + b"\n")
    return True


def _set_body(req: Any, res: Any, body: bytes) -> None:
    """Answer with ``body``, or only with its length if that is all that is asked."""
    if req.method == b"HEAD":
        res.headers[b"Content-Length"] = b"%d" % len(body)
        res.setbodygen(iter(()))
    else:
        res.setbodybytes(body)


def _answer(repo: RepoT, name: bytes, req: Any, res: Any) -> None:
    if name == advertise.BUNDLE_LIST:
        _send_list(repo, req, res)
        return
    entry = None
    if registers.NAME.fullmatch(name):
        register = registers.Register.read_for_client(repo)
        entry = register.entries.get(name.decode()) if register else None
    directory = locations.directory_at(repo, entry.path) if entry else None
    if name.endswith(_FOR_GIT) and not validity.may_reach_git(repo):
        entry = None
    if entry is None or (directory is None and not entry.key):
        raise common.ErrorResponse(common.HTTP_NOT_FOUND)
    if not validity.may_be_read(repo, entry):
        raise common.ErrorResponse(common.HTTP_NOT_FOUND)
    _ask_hooks(repo, names=name.endswith(_FOR_GIT))
    if directory is None:
        _redirect(repo, entry, req, res)
        return
    file = _open(directory, entry)
    try:
        _send(repo, entry, file, req, res)
    except BaseException:
        file.close()
        raise


def _ask_hooks(repo: RepoT, *, names: bool) -> None:
    if not validity.do_hooks_allow(repo, names=names):
        text = "a hook of this server refuses bundles"
        raise common.ErrorResponse(common.HTTP_FORBIDDEN, text)


def _redirect(repo: RepoT, entry: Entry, req: Any, res: Any) -> None:
    """Send a client to the object store, with a link that is made for it."""
    link = objectstore.link_to(repo, entry)
    if not link or validity.is_exposed(repo, entry):
        raise common.ErrorResponse(common.HTTP_NOT_FOUND)
    res.status = b"302 Found"
    res.headers[b"Location"] = link
    res.headers[b"Cache-Control"] = b"no-store"  # it is a secret, and not for long
    res.headers[b"Content-Type"] = b"text/plain; charset=utf-8"
    _set_body(req, res, b"see the object store\n")


def _open(directory: Directory, entry: Entry) -> BinaryIO:
    try:
        fd = directory.open(entry.name.encode())
    except (OSError, error.StorageError):
        raise common.ErrorResponse(common.HTTP_NOT_FOUND) from None
    if os.fstat(fd).st_size != entry.bytes:
        os.close(fd)
        raise common.ErrorResponse(common.HTTP_NOT_FOUND)
    return os.fdopen(fd, "rb", buffering=0)


def _send_list(repo: RepoT, req: Any, res: Any) -> None:
    try:
        chain = (
            [it.entry for it in validity.published_chain(repo)]
            if validity.may_reach_git(repo)
            else []
        )
    except error.StorageError:
        chain = []  # the operator is told elsewhere
    if not chain:
        raise common.ErrorResponse(common.HTTP_NOT_FOUND)
    _ask_hooks(repo, names=True)
    base = locations.base_of(repo.ui, req)
    text = advertise.bundle_list_text(
        chain, lambda it: objectstore.direct_address(repo, it, base)
    )
    res.status = b"200 Script output follows"
    res.headers[b"Content-Type"] = b"text/plain; charset=utf-8"
    res.headers[b"Cache-Control"] = b"no-cache"
    _set_body(req, res, text)


def _send(repo: RepoT, entry: Entry, file: BinaryIO, req: Any, res: Any) -> None:
    etag = b'"%s"' % entry.name.partition(".")[0].encode()
    # a web server that asked for a password may have a cache, too
    is_private = (
        locations.is_url_restricted(repo.ui)
        or not locations.may_name_url(repo.ui)
        or req.remoteuser
    )
    shared = b"private" if is_private else b"public"
    res.headers[b"ETag"] = etag
    res.headers[b"Cache-Control"] = shared + b", max-age=31536000, immutable"
    known = req.headers.get(b"If-None-Match", b"")
    if known == b"*" or etag in known:
        file.close()
        res.status = b"304 Not Modified"
        res.setbodybytes(b"")
        return
    res.headers[b"Accept-Ranges"] = b"bytes"
    wanted = req.headers.get(b"Range")
    if req.headers.get(b"If-Range", etag) != etag or req.method != b"GET":
        wanted = None
    span = _range(wanted, entry.bytes) if wanted else None
    start, end = span or (0, entry.bytes)
    if span and start >= end:
        file.close()
        res.headers[b"Content-Range"] = b"bytes */%d" % entry.bytes
        res.headers[b"Cache-Control"] = b"no-store"  # the answer differs from the file
        res.headers[b"Content-Type"] = b"text/plain; charset=utf-8"
        res.status = b"416 Range Not Satisfiable"
        _set_body(req, res, b"range not satisfiable\n")
        return
    if span:
        sent = (start, end - 1, entry.bytes)
        res.headers[b"Content-Range"] = b"bytes %d-%d/%d" % sent
        res.status = b"206 Partial Content"
    else:
        res.status = b"200 OK"
    res.headers[b"Content-Type"] = b"application/octet-stream"
    res.headers[b"Content-Length"] = b"%d" % (end - start)
    if req.method == b"HEAD":
        file.close()
        res.setbodygen(iter(()))
    else:
        res.setbodygen(_chunks(file, start, end))


def _range(wanted: bytes, size: int) -> tuple[int, int] | None:
    """Return first byte and end of the requested range; equal: out of range.

    ``None`` for several ranges or no valid one: then the whole file is the answer.
    """
    found = _RANGE.fullmatch(wanted.strip())
    first, last = found.groups() if found else (b"", b"")
    if not first and not last:
        return None
    if not first:
        return max(0, size - _position(last)), size
    start = _position(first)
    if last and _position(last) < start:
        return None
    end = min(_position(last) + 1, size) if last else size
    return (start, end) if start < size else (size, size)


def _position(digits: bytes) -> int:
    return int(digits.lstrip(b"0")[:_MOST_DIGITS] or b"0")


def _chunks(file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while start < end:
            chunk = file.read(min(_CHUNK_BYTES, end - start))
            if not chunk:
                return
            start += len(chunk)
            yield chunk
