"""Batch requests of git-lfs and their answers: JSON, and the blobs of pointers.

The form is in git-lfs's ``docs/api/batch.md``. Knows neither hgweb nor a store.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from ...loading import load
from ...records import Record
from ..refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


def parse(content: bytes) -> Sequence[Wanted]:
    """Return what a request asks to download; ``RefusedError`` if it is none."""
    load(json)
    try:
        found = json.loads(content)
        operation = found["operation"]
        transfers = found.get("transfers")
        is_basic = not transfers or "basic" in transfers
        wanted = [_wanted(item) for item in found["objects"]]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise RefusedError(
            400, b"the request is malformed: it is not git-lfs's"
        ) from None
    if operation == "upload":
        raise RefusedError(403, _PUSHES)
    if operation != "download":
        raise RefusedError(400, b"this operation of git-lfs is not known")
    if not is_basic:
        raise RefusedError(400, b"git-lfs has to use the transfer adapter 'basic'")
    if found.get("hash_algo", "sha256") != "sha256":
        raise RefusedError(409, b"git-lfs has to use the hash algorithm 'sha256'")
    if len(wanted) > _MOST:
        raise RefusedError(413, b"git-lfs asks for too many contents at once")
    return wanted


def _wanted(item: Any) -> Wanted:
    oid, size = item["oid"], item["size"]
    if not _OID.fullmatch(oid) or type(size) is not int or not 0 <= size <= _LARGEST:
        raise ValueError("no pointer")
    return Wanted(oid.encode("ascii"), size)


def answer(
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


def refusal(sentence: bytes) -> bytes:
    """Return what git-lfs prints of an answer that is an error."""
    load(json)
    return json.dumps({"message": sentence.decode("utf-8", "replace")}).encode("ascii")
