"""git-lfs's batch requests in hgweb: which contents a git client may download.

git-lfs asks below ``<url>.git/info/lfs``, for whatever URL git clones. Mercurial's LFS
extension answers hg on one of these routes, and refuses the content type of git-lfs.
Its requests are left to it. It also sends the contents to git-lfs.

A content is offered if its pointer is in the git store and the store may be read. So a
changeset that is served names it.

Requests and answers are JSON, in the form of git-lfs's ``docs/api/batch.md``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from ..configitems import is_enabled
from ..loading import load
from ..records import Record
from . import permissions
from .admission import Admission
from .errors import HttpError
from .httprequest import GitRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..gitstore.git.process import Git


TYPE = b"application/vnd.git-lfs+json"
MOST_BYTES = 1 << 18
"""The bound of a request. git-lfs asks for 100 contents at once, in some 12 KB."""
_MOST = 1000
_LARGEST = (1 << 63) - 1
_OID = re.compile(r"[0-9a-f]{64}")
_SECONDS = 600
"""How long git-lfs is told that a link is good for. It asks again after that."""
_PUSHES = b"this repository is read-only for git-lfs; push with Mercurial instead"


class Wanted(Record):
    """A content that a client asks for."""

    oid: bytes
    """The SHA-256 of the content, in hex."""
    size: int
    """Its length in bytes."""

    @property
    def pointer_oid(self) -> bytes:
        """The git oid of the blob that is the pointer."""
        pointer = (
            b"version https://git-lfs.github.com/spec/v1\n"
            b"oid sha256:%s\nsize %d\n" % (self.oid, self.size)
        )
        head = b"blob %d\0" % len(pointer)
        return hashlib.sha1(head + pointer, usedforsecurity=False).digest()


def parse_batch(content: bytes) -> Sequence[Wanted]:
    """Return the objects that a request asks to download; ``HttpError`` if invalid."""
    load(json)
    try:
        found = json.loads(content)
        operation = found["operation"]
        transfers = found.get("transfers")
        is_basic = not transfers or "basic" in transfers
        wanted = [_wanted(item) for item in found["objects"]]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise HttpError(400, b"the request is malformed: it is not git-lfs's") from None
    if operation == "upload":
        raise HttpError(403, _PUSHES)
    if operation != "download":
        raise HttpError(400, b"this operation of git-lfs is not known")
    if not is_basic:
        raise HttpError(400, b"git-lfs has to use the transfer adapter 'basic'")
    if found.get("hash_algo", "sha256") != "sha256":
        raise HttpError(409, b"git-lfs has to use the hash algorithm 'sha256'")
    if len(wanted) > _MOST:
        raise HttpError(413, b"git-lfs asks for too many contents at once")
    return wanted


def _wanted(item: Any) -> Wanted:
    oid, size = item["oid"], item["size"]
    if not _OID.fullmatch(oid) or type(size) is not int or not 0 <= size <= _LARGEST:
        raise ValueError("no pointer")
    return Wanted(oid.encode("ascii"), size)


def batch_answer(
    wanted: Iterable[Wanted],
    has: Callable[[Wanted], bool],
    url: Callable[[bytes], bytes],
    headers: dict[str, str],
) -> bytes:
    """Return the answer to a request.

    ``has`` tells whether a content may be downloaded, and ``url`` from where, with
    ``headers``. One that may not is answered as one that does not exist.
    """
    objects = []
    for item in wanted:
        entry: dict[str, Any] = {"oid": item.oid.decode("ascii"), "size": item.size}
        if has(item):
            href = url(item.oid).decode("latin-1")
            link = {"href": href, "header": headers, "expires_in": _SECONDS}
            entry["actions"] = {"download": link}
        else:
            entry["error"] = {"code": 404, "message": "the content does not exist here"}
        objects.append(entry)
    return json.dumps({"transfer": "basic", "objects": objects}).encode("ascii")


def batch_refusal(sentence: bytes) -> bytes:
    """Return the text that git-lfs prints for an error."""
    load(json)
    return json.dumps({"message": sentence.decode("utf-8", "replace")}).encode("ascii")


BATCH = b"info/lfs/objects/batch"
_OF_HG = b".git/" + BATCH
_MOST_TRIES = 5
"""How often git is asked if the repository hides something meanwhile."""
_NOT_HERE = b"this server does not serve files in LFS of this repository"


def handle_request(
    orig: Callable[..., bool], rctx: Any, req: Any, res: Any, checkperm: Any
) -> bool:
    """Answer a batch request of git-lfs; leave all others to Mercurial."""
    load(sys.modules[__name__])
    if not _is_ours(req) or not is_enabled(rctx.repo.ui):
        return orig(rctx, req, res, checkperm)
    may = functools.partial(checkperm, rctx, req)
    _BatchRequest(rctx.repo, req, res).serve(may)
    return True


def _is_ours(req: Any) -> bool:
    if req.dispatchpath == _OF_HG:
        return not _is_of_hg(req)
    return bool(req.dispatchpath == BATCH)


def _is_of_hg(req: Any) -> bool:
    """Return whether Mercurial's LFS extension would answer its own clients."""
    headers = req.headers
    return all(headers.get(name) == TYPE for name in (b"Content-Type", b"Accept"))


def _blobs(git: Git, oids: Sequence[bytes]) -> frozenset[bytes]:
    """Return the members of ``oids`` that are blobs of a store."""
    listing = "".join(f"{oid.hex()}\n" for oid in oids).encode()
    found = git.run("cat-file", "--batch-check", input=listing).stdout.splitlines()
    kinds = (line.split(b" ")[1] for line in found)
    return frozenset(
        oid for oid, kind in zip(oids, kinds, strict=True) if kind == b"blob"
    )


class _BatchRequest(GitRequest):
    """A request on one of the routes."""

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``HttpError`` or ``ErrorResponse`` if that may not be."""
        req = self.req
        self.command = b"lfs batch"
        may(b"pull")
        self.expect(b"POST")
        self.expect_type(TYPE)
        admission = Admission(self.repo, permissions.of_http(self.repo, req, may))
        self.watch(admission.config)
        limit = min(admission.config.max_body_bytes, MOST_BYTES)
        with self.received(admission, limit) as body:
            wanted = parse_batch(body.read())
        queue_seconds = admission.config.queue_seconds
        asked = {item.pointer_oid for item in wanted}
        now = False
        for _number in range(_MOST_TRIES):
            with self.waiting(queue_seconds):
                admission.make_fresh(now=now)
            self.take_slot(admission, is_fetch=False)
            seen = admission.seen()
            named = _blobs(admission.store.repository.git, sorted(asked))
            if not admission.is_safe(seen):
                continue
            # a content is missing only if everything that is served is exported
            if now or asked == named or admission.is_current():
                break
            now = True
        else:
            raise HttpError.later(b"the repository keeps changing; try again")
        size_of = self._sizes()
        content = batch_answer(
            wanted,
            lambda item: item.pointer_oid in named and size_of(item) == item.size,
            self._url,
            self._headers(),
        )
        self.send_whole(TYPE, content)

    def _sizes(self) -> Callable[[Wanted], int | None]:
        """Return how long contents are in Mercurial's store; ``None``: not there."""
        repo = self.repo
        contents = getattr(repo.svfs, "lfslocalblobstore", None)
        if contents is None or not repo.ui.configbool(b"experimental", b"lfs.serve"):
            raise HttpError(404, _NOT_HERE)

        def size(item: Wanted) -> int | None:
            try:
                return os.stat(contents.path(item.oid)).st_size
            except OSError:
                return None

        return size

    def _url(self, oid: bytes) -> bytes:
        """Return where Mercurial's LFS extension has a content."""
        req = self.req
        found: bytes = b"%s%s/.hg/lfs/objects/%s" % (req.baseurl, req.apppath, oid)
        return found

    def _headers(self) -> dict[str, str]:
        """Return the header that git-lfs must send: the password again, as hg sends
        it."""
        found = self.req.headers.get(b"Authorization", b"")
        if found[:6].lower() != b"basic ":
            return {}
        return {"Authorization": found.decode("latin-1")}

    def explained(self, code: int, sentence: bytes) -> tuple[int, bytes, bytes]:
        """Return status, type and body of an answer that is an error."""
        return code, TYPE, batch_refusal(sentence)
