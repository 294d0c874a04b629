"""git-lfs's batch requests in hgweb: which contents a git client may download.

git-lfs asks below ``<url>.git/info/lfs``, for whatever URL git clones. Mercurial's LFS
extension answers hg on one of these routes, and refuses the content type of git-lfs.
Its requests are left to it. It also sends the contents to git-lfs.

A content is offered if its pointer is in the git store and the store may be read. So a
changeset that is served names it.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from mercurial.hgweb import request as requestmod

from ...index import openhooks
from ...loading import load
from .. import permissions, requestbody
from ..admission import Admission
from ..exchange import Exchange
from ..refusal import RefusedError
from . import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...gitstore.git.gitprocess import Git
    from .batch import Wanted

_BATCH = b"info/lfs/objects/batch"
_OF_HG = b".git/" + _BATCH
_MOST_TRIES = 5
"""How often git is asked if the repository hides something meanwhile."""
_NOT_HERE = b"this server does not serve files in LFS of this repository"


def handle_request(
    orig: Callable[..., bool], rctx: Any, req: Any, res: Any, checkperm: Any
) -> bool:
    """Answer a batch request of git-lfs; leave all others to Mercurial."""
    load(sys.modules[__name__])
    if not _is_ours(req) or not openhooks.enabled(rctx.repo.ui):
        return orig(rctx, req, res, checkperm)
    may = functools.partial(checkperm, rctx, req)
    _BatchRequest(rctx.repo, req, res).serve(may)
    return True


def _is_ours(req: Any) -> bool:
    if req.dispatchpath == _OF_HG:
        return not _is_of_hg(req)
    return bool(req.dispatchpath == _BATCH)


def _is_of_hg(req: Any) -> bool:
    """Tell whether Mercurial's LFS extension would answer, as it does its clients."""
    headers = req.headers
    return all(headers.get(name) == batch.TYPE for name in (b"Content-Type", b"Accept"))


def route(
    orig: Callable[..., Iterator[bytes]], directory: Any, req: Any, res: Any
) -> Iterator[bytes]:
    """Find the repository ``name`` in ``hgwebdir`` for what git-lfs calls ``name.git``.

    Unless there is a repository of that very name.
    """
    load(sys.modules[__name__])
    path = req.rawenv.get(b"PATH_INFO", b"")
    if path.endswith(_OF_HG) and openhooks.enabled(directory.ui):
        directory.refresh()
        names = {name for name, _path in directory.repos}
        name = path[: -len(_OF_HG)].lstrip(b"/")
        if name in names and name + b".git" not in names:
            environ = {key.decode("latin-1"): req.rawenv[key] for key in req.rawenv}
            environ["PATH_INFO"] = b"/%s/%s" % (name, _OF_HG)
            req = requestmod.parserequestfromenv(
                environ,
                altbaseurl=directory.ui.config(b"web", b"baseurl"),
                bodyfh=req.bodyfh,
            )
    return orig(directory, req, res)


def _blobs(git: Git, oids: Sequence[bytes]) -> frozenset[bytes]:
    """Return those of ``oids`` that are blobs of a store."""
    listing = "".join(f"{oid.hex()}\n" for oid in oids).encode()
    found = git.run("cat-file", "--batch-check", input=listing).stdout.splitlines()
    kinds = (line.split(b" ")[1] for line in found)
    return frozenset(
        oid for oid, kind in zip(oids, kinds, strict=True) if kind == b"blob"
    )


class _BatchRequest(Exchange):
    """A request on one of the routes."""

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``RefusedError`` or ``ErrorResponse`` if that may not be."""
        req = self.req
        self.command = b"lfs batch"
        may(b"pull")
        self.expect(b"POST")
        self.expect_type(batch.TYPE)
        admission = Admission(self.repo, permissions.of_http(self.repo, req, may))
        self.watch(admission.config.quiet_seconds)
        limit = min(admission.config.max_body_bytes, batch.MOST_BYTES)
        with requestbody.received(req, self.connection, limit, self.progress) as body:
            wanted = batch.parse(body.read())
        queue_seconds = admission.config.queue_seconds
        for _number in range(_MOST_TRIES):
            with self.waiting(2 * queue_seconds):
                admission.make_fresh()
                self.slot = self.slot or admission.take_slot(is_fetch=False)
            seen = admission.seen()
            git = admission.store.repository.git
            named = _blobs(git, [item.pointer_oid for item in wanted])
            if admission.is_safe(seen):
                break
        else:
            raise RefusedError.later(b"the repository keeps changing; try again")
        size_of = self._sizes()
        content = batch.answer(
            wanted,
            lambda item: item.pointer_oid in named and size_of(item) == item.size,
            self._url,
            self._headers(),
        )
        self.send_whole(batch.TYPE, content)

    def _sizes(self) -> Callable[[Wanted], int | None]:
        """Return how long contents are in Mercurial's store; ``None``: not there."""
        repo = self.repo
        contents = getattr(repo.svfs, "lfslocalblobstore", None)
        if contents is None or not repo.ui.configbool(b"experimental", b"lfs.serve"):
            raise RefusedError(404, _NOT_HERE)

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
        """Return what git-lfs is to send: the password once more, as hg does it."""
        found = self.req.headers.get(b"Authorization", b"")
        if found[:6].lower() != b"basic ":
            return {}
        return {"Authorization": found.decode("latin-1")}

    def explained(self, code: int, sentence: bytes) -> tuple[int, bytes, bytes]:
        """Return status, type and body of an answer that is an error."""
        return code, batch.TYPE, batch.refusal(sentence)
