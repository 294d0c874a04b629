"""Git's smart HTTP protocol in hgweb: routes, and the steps of a request.

Order: permissions, body of the request, freshness of the store, slot, git. The answer
begins when git has written something. So every error has a status of its own, except
for a git process that dies in the middle (gitprotocol-http(5)). hg clients use none of
these routes. Repositories without amalgam are left to Mercurial.

The command ``bundle-uri`` of protocol version 2 is answered here: git 2.39 does not
know it, and later ones read the list from their configuration. A malformed list ends a
clone, so a list is sent only if all of it is valid (gitprotocol-v2(5), "bundle-uri").

A push is two requests: one for the refs, one with the commands and the pack. Both need
the permission ``push``, as in Mercurial's own protocol.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Any

from mercurial import error, util
from mercurial.hgweb import request

from ..clonebundles import locations, objectstore, validity
from ..configitems import is_enabled
from ..gitpeer import follow
from ..loading import load
from ..terminal import printable
from . import httprequest, lfs, permissions, pktlines, receivepack, uploadpack
from .admission import Admission
from .errors import HttpError
from .httprequest import GIT_AGENT, GitRequest, malformed
from .receivepack import ReceivePackSession
from .uploadpack import UploadPack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set as AbstractSet

    from mercurial.interfaces.types import RepoT

    from ..clonebundles.register import Entry


BUNDLE_URI = b"bundle-uri"
_URL = re.compile(rb"https?://[\x21-\x7e]{1,8000}")
_MOST = 100


def bundle_uri_answer(repo: RepoT, req: Any) -> bytes:
    """Return the answer to the command; empty without bundles."""
    try:
        if not validity.may_reach_git(repo):
            return b""
        chain = [link.entry for link in validity.published_chain(repo)]
    except error.StorageError:
        return b""  # the operator is told elsewhere
    base = locations.base_of(repo.ui, req)
    return _answer(chain, lambda entry: objectstore.direct_address(repo, entry, base))


def _answer(chain: Iterable[Entry], address: Callable[[Entry], bytes]) -> bytes:
    lines = [b"bundle.version=1", b"bundle.mode=all"]
    lines.append(b"bundle.heuristic=creationToken")
    entries = [*chain]
    for entry in entries:
        url = address(entry)
        if not _URL.fullmatch(url):
            return b""
        kind = b"increment" if entry.follows else b"base"
        name = b"%s-%d" % (kind, entry.token)
        lines.append(b"bundle.%s.uri=%s" % (name, url))
        # git compares keys as it sends them, all in lower case
        lines.append(b"bundle.%s.creationtoken=%d" % (name, entry.token))
    if not 0 < len(entries) <= _MOST:
        return b""
    return b"".join(map(pktlines.line, lines)) + pktlines.FLUSH


PUSH = b"git-receive-pack"
_PUSH_ADVERTISEMENT = b"info/refs"
_PUSH_TYPE = b"application/x-git-receive-pack-%s"
_START = pktlines.line(b"# service=git-receive-pack\n") + pktlines.FLUSH
_ADVERTISE = ("--stateless-rpc", "--http-backend-info-refs")


def is_push(req: Any) -> bool:
    """Return whether a request belongs to a push."""
    path = req.dispatchpath
    if path == _PUSH_ADVERTISEMENT:
        return bool(req.qsparams.getall(b"service") == [PUSH])
    return bool(path == PUSH)


def as_post(req: Any) -> Any:
    """Return a request as it would be if it changed something.

    Mercurial allows pushes by POST only. So it is asked for the permission to push in
    this way also if a client asks for refs, which it does by GET.
    """
    return request.attr.evolve(req, method=b"POST")


class ReceivePackRequest(GitRequest):
    """A request of a push."""

    def __init__(
        self, repo: RepoT, req: Any, res: Any, may_push: Callable[[], None]
    ) -> None:
        """``may_push`` asks for the permission to push."""
        super().__init__(repo, req, res)
        self._may_push = may_push
        self._stack = contextlib.ExitStack()
        self._reception: ReceivePackSession | None = None
        self._answering: threading.Thread | None = None
        self.command = b"push"

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``HttpError`` or ``ErrorResponse`` if that may not be."""
        req = self.req
        may(b"pull")
        if req.rawenv.get(b"PATH_INFO", b"").endswith(b"/"):
            raise HttpError(404, b"only git's smart protocol is served here")
        asks = req.dispatchpath == _PUSH_ADVERTISEMENT
        self.expect(b"GET" if asks else b"POST")
        receivepack.check_policy(self.repo)
        self._may_push()
        proto = permissions.of_http(self.repo, req, may)
        self._admission = Admission(self.repo, proto)
        self.watch(self._admission.config)
        if asks:
            self.command = b"push advertisement"
            self._advertise(proto)
        else:
            self._receive(proto)

    def explained(self, code: int, sentence: bytes) -> tuple[int, bytes, bytes]:
        """Return status, type and body of an error.

        During a push, git prints errors of the sideband only (gitprotocol-pack(5),
        "side-band-64k"). After 401 it asks for a password.
        """
        is_push = self.req.dispatchpath == PUSH and self.req.method == b"POST"
        if code == 413:
            sentence += b"; push older commits first: git push origin COMMIT:BRANCH"
        by_git = GIT_AGENT.match(self.req.headers.get(b"User-Agent", b""))
        if is_push and by_git and code != 401:
            error = pktlines.line(b"\3%s\n" % sentence)
            return 200, _PUSH_TYPE % b"result", error + pktlines.FLUSH
        return super().explained(code, sentence)

    def _advertise(self, proto: Any) -> None:
        """Answer with all refs and the capabilities of receive-pack."""
        with self.waiting(self._admission.config.queue_seconds):
            self._admission.make_fresh(now=True, waits_on=self.waits_on)
        self.take_slot(self._admission, is_fetch=False)
        self._run(self._begun(proto), None)

    def _receive(self, proto: Any) -> None:
        """Receive a push and answer with its report."""
        self.expect_type(_PUSH_TYPE % b"request")
        # first, so that at most as many bodies as slots are on the disk
        with self.waiting(self._admission.config.queue_seconds):
            self.slot = self._admission.take_push_slot()
        reception = self._begun(proto)
        assert self.watchdog is not None
        body = self._stack.enter_context(
            httprequest.received_body(
                self.req,
                self.connection,
                self._admission.config.max_push_bytes,
                self.watchdog.moved,  # a method of this would keep this alive
                directory=reception.received.directory.path,
            )
        )
        try:
            head = pktlines.head_of(body)
        except ValueError:
            raise malformed() from None
        if head.is_flush:  # git asks whether it may send more, or needs a password
            self.send(_PUSH_TYPE % b"result", iter(()))
            return
        body.seek(0)
        reception.hear(body.read(receivepack.HEARD_BYTES))
        os.lseek(body.fileno(), 0, os.SEEK_SET)  # git's position, not Python's
        with self.waiting(self._admission.config.queue_seconds):
            self._admission.make_fresh()
        self._run(reception, body)

    def _begun(self, proto: Any) -> ReceivePackSession:
        assert self.watchdog is not None
        self._reception = ReceivePackSession(
            self._stack, self._admission, self.repo, proto, self.watchdog
        )
        return self._reception

    def _run(self, reception: ReceivePackSession, body: IO[bytes] | None) -> None:
        """Stream git's output, its keepalives while its hook is answered, too."""
        refs = reception.read_refs()
        if body:
            reception.put_refs(refs)
        options = ("--stateless-rpc",) if body else _ADVERTISE
        self.running = reception.start(*options, slot=self.slot, stdin=body)
        if body:
            # only this thread can answer the client (PEP 3333)
            answering = threading.Thread(target=reception.answer, daemon=False)
            answering.start()
            self._answering = answering
        pieces = self.pieces()
        first = next(pieces, b"")
        if not first:
            self.check_end()
        if body:
            answer = itertools.chain((first,), pieces)
            self.send(_PUSH_TYPE % b"result", answer)
            return
        told = first + b"".join(pieces)
        assert self._admission is not None
        shown = receivepack.advertisement(told, refs, self._admission.store)
        self.send(_PUSH_TYPE % b"advertisement", itertools.chain((_START,), shown))

    def progress(self) -> None:
        """Note that something came, or was taken."""
        if self._reception:
            self._reception.progress()
        else:
            super().progress()

    def end(self, how: bytes, *, kill: bool) -> None:
        """Give everything back, and log the request, once.

        A push that is being applied goes on to its end without its client.
        """
        if kill and self.running:
            self.running.kill()  # else its hook may never ask
        if self._answering:
            self._answering.join()
        super().end(how, kill=kill)
        self._stack.close()


_SERVICE = b"git-upload-pack"
_ARCHIVE = b"git-upload-archive"
_ADVERTISEMENT = b"info/refs"
_PRINTABLE = re.compile(rb"[\x21-\x7e]*")
_SLASH = re.compile(rb"/")
_DUMB = re.compile(rb"HEAD|objects(?:/.*)?")
_TYPE = b"application/x-git-upload-pack-%s"
_COMMANDS = (b"ls-refs", b"fetch", BUNDLE_URI)
_START_LINE = pktlines.line(b"# service=git-upload-pack\n")
_KEEPALIVE = pktlines.line(b"# the first export of this repository is running\n")
_KEEPALIVE_SECONDS = 5
"""As often as git itself sends keepalives."""
_SKIPS_LINES = re.compile(rb"git/(?!1\.0$)[0-9](?!.*libgit2)")
"""User agents that ignore lines before the first flush: git itself, and not libgit2 and
older go-git, which bear its name."""
_SOON_SECONDS = 0.05
"""How long after a look at the store git may be started without another."""
_MOST_STARTS = 5
"""How often git is started if the repository hides something meanwhile."""

_NOT_SMART = b"only git's smart protocol is served here"


def handle_request(
    orig: Callable[..., bool], rctx: Any, req: Any, res: Any, checkperm: Any
) -> bool:
    """Answer a request of a git client; leave all others to Mercurial.

    Any request lets the repository look at the git repositories that it follows.
    """
    load(sys.modules[__name__])
    follow.start_if_due(rctx.repo)
    path = req.dispatchpath or b""
    beside = path.removeprefix(b".git/")
    if not _is_ours(req, beside) or not is_enabled(rctx.repo.ui):
        return orig(rctx, req, res, checkperm)
    if beside != path:
        return _redirect(req, res, beside) or orig(rctx, req, res, checkperm)
    may = functools.partial(checkperm, rctx, req)
    if is_push(req):
        may_push = functools.partial(checkperm, rctx, as_post(req), b"push")
        ReceivePackRequest(rctx.repo, req, res, may_push).serve(may)
    else:
        _UploadPackRequest(rctx.repo, req, res).serve(may)
    return True


_ROUTES = re.compile(
    r"/(info/refs|git-upload-pack|git-receive-pack|info/lfs/objects/batch"
    r"|amalgam/(id|bundles)(/[^?]*)?)(\?|$)"
)


def answer_options(handler: Any) -> None:
    """Let hgweb answer the method OPTIONS on our routes under ``hg serve``.

    Other web servers pass it on for all routes.
    """
    load(sys.modules[__name__])
    if not _ROUTES.search(handler.path):
        handler.send_error(501, "Unsupported method ('OPTIONS')")
        return
    handler.close_connection = True  # a body may follow, which nobody reads
    handler.do_POST()


def _is_ours(req: Any, path: bytes) -> bool:
    if path == _ADVERTISEMENT:
        return b"service" in req.qsparams or b"cmd" not in req.qsparams
    return path in (_SERVICE, PUSH, _ARCHIVE) or bool(_DUMB.fullmatch(path))


def _redirect(req: Any, res: Any, path: bytes) -> bool:
    """Send a client to ``path`` below the address of the server; false: it may not go.

    So web servers that restrict addresses are asked for that of the repository.
    """
    query = b"?" + req.querystring if req.querystring else b""
    if req.method not in (b"GET", b"HEAD") or not _PRINTABLE.fullmatch(query):
        return False
    res.status = b"302 Found"
    where = b"%s/%s" % (req.apppath.rstrip(b"/"), path)
    res.headers[b"Location"] = util.urlreq.quote(where) + query
    res.headers[b"Content-Type"] = b"text/plain; charset=utf-8"
    res.setbodybytes(b"" if req.method == b"HEAD" else b"see the repository\n")
    connection = httprequest.Connection(req)
    if not httprequest.is_body_empty(req):
        connection.close_after_answer()
    return True


def route(
    orig: Callable[..., Iterator[bytes]], directory: Any, req: Any, res: Any
) -> Iterator[bytes]:
    """Answer ``name.git`` in ``hgwebdir`` as ``name``, unless it is there itself.

    By a redirect, except for git-lfs: it asks by POST.
    """
    load(sys.modules[__name__])
    path = req.rawenv.get(b"PATH_INFO", b"").lstrip(b"/")
    if b".git" not in path or not is_enabled(directory.ui):
        return orig(directory, req, res)
    directory.refresh()
    names = {name for name, _path in directory.repos}
    name, rest = _renamed(path, names)
    if name in names and rest == b"/" + lfs.BATCH:
        environ = {key.decode("latin-1"): req.rawenv[key] for key in req.rawenv}
        found = b"/%s/.git%s" % (name, rest)
        environ["PATH_INFO"] = found.decode("latin-1")
        base = directory.ui.config(b"web", b"baseurl")
        req = request.parserequestfromenv(environ, altbaseurl=base, bodyfh=req.bodyfh)
    elif name and _redirect(req, res, name + rest):
        return iter(res.sendresponse())
    return orig(directory, req, res)


def _renamed(path: bytes, names: AbstractSet[bytes]) -> tuple[bytes, bytes]:
    """Return the ``name`` of ``name.git`` at the beginning of a path, and the rest.

    Empty if there is none, if hgwebdir has that very name, or below a repository. Else
    it is not looked at whether ``name`` exists, so the answer does not disclose that.
    """
    is_inside = b"" in names
    for end in (*(found.start() for found in _SLASH.finditer(path)), len(path)):
        name = path[:end]
        if name.endswith(b".git") and not any(
            it == name or it.startswith(name + b"/") for it in names
        ):
            renamed = name.removesuffix(b".git")
            if renamed in names or not (is_inside or renamed.endswith(b"/")):
                return renamed, path[end:]
        is_inside = is_inside or name in names
    return b"", b""


class _FirstExportError(Exception):
    """A first export takes longer than a web server may wait in silence."""


class _UploadPackRequest(GitRequest):
    """A request on one of the routes."""

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``HttpError`` or ``ErrorResponse`` if that may not be."""
        req, path = self.req, self.req.dispatchpath
        may(b"pull")
        self._check_route()
        self._admission = Admission(self.repo, permissions.of_http(self.repo, req, may))
        self.watch(self._admission.config)
        if path == _ADVERTISEMENT:
            self._advertise()
        else:
            self._serve()

    def explained(self, code: int, sentence: bytes) -> tuple[int, bytes, bytes]:
        """Return status, type and body of an answer that is an error.

        Of errors, git prints only the body of ``info/refs``. So it gets the sentence as
        a line of the protocol. All others need the status. After 401, git asks for a
        password.
        """
        is_fetch = self.req.dispatchpath == _SERVICE and self.req.method == b"POST"
        by_git = GIT_AGENT.match(self.req.headers.get(b"User-Agent", b""))
        if is_fetch and by_git and code != 401:
            return 200, _TYPE % b"result", pktlines.error_line(sentence)
        return super().explained(code, sentence)

    def _check_route(self) -> None:
        """Refuse services other than upload-pack."""
        req, path = self.req, self.req.dispatchpath
        if req.rawenv.get(b"PATH_INFO", b"").endswith(b"/") or _DUMB.fullmatch(path):
            raise HttpError(404, _NOT_SMART)
        service = path
        if path == _ADVERTISEMENT:
            service = b" ".join(req.qsparams.getall(b"service"))
            self.expect(b"GET")
        if not service:
            raise HttpError(403, _NOT_SMART)
        if service != _SERVICE:
            raise HttpError(403, b"this service of git is not offered here")
        if path != _ADVERTISEMENT:
            self.expect(b"POST")

    @property
    def _spoken(self) -> bytes:
        """The version of the protocol that the client asks for."""
        return uploadpack.spoken(self.req.headers.get(b"Git-Protocol", b""))

    @property
    def _is_v2(self) -> bool:
        return self._spoken == b"version=2"

    def _make_fresh(self) -> None:
        self._wait(self._admission.config.queue_seconds, self.waits_on)

    def _wait(self, seconds: float, waits_on: Callable[[], bool]) -> None:
        with self.waiting(seconds):
            self._admission.make_fresh(
                now=self.wants_now, seconds=seconds, waits_on=waits_on
            )
        self._made_fresh = time.monotonic()

    def _waits_for_first_export(self) -> bool:
        """As ``waits_on``, but raise ``_FirstExportError`` for git."""
        if _SKIPS_LINES.match(self.req.headers.get(b"User-Agent", b"")):
            raise _FirstExportError
        return self.waits_on()

    def _advertise(self) -> None:
        """Answer with capabilities, and in versions 0 and 1 with all refs."""
        kind = _TYPE % b"advertisement"
        try:
            seconds = self._admission.config.queue_seconds
            self._wait(seconds, self._waits_for_first_export)
        except _FirstExportError:
            self.send(kind, self._kept_alive())
            return
        if self._is_v2:
            self.send_whole(kind, self._capabilities())
        else:
            refs = self._refs()
            first = _START_LINE + pktlines.FLUSH + next(refs, b"")
            self.send(kind, itertools.chain((first,), refs))

    def _kept_alive(self) -> Iterator[bytes]:
        """Yield an advertisement after the first export, and keepalives until then.

        git ignores lines before the first flush. Other clients do not.
        """
        yield _START_LINE
        try:
            while True:
                try:
                    self._wait(_KEEPALIVE_SECONDS, self._waits_for_first_export)
                    break
                except _FirstExportError:
                    yield _KEEPALIVE
            found = iter((self._capabilities(),)) if self._is_v2 else self._refs()
        except HttpError as exc:
            self.outcome = self.noted(exc)
            found = iter((pktlines.error_line(printable(exc.sentence)),))
        yield pktlines.FLUSH
        yield from found

    def _capabilities(self) -> bytes:
        """Return the capabilities of version 2 for this client, and cache git's."""
        basis = uploadpack.capabilities_basis(self._admission.store)
        told = uploadpack.kept_capabilities(basis)
        if not told:
            self.take_slot(self._admission, is_fetch=False)
            told = b"".join(self._begun("--http-backend-info-refs"))
            shown = self._shown(told)
            uploadpack.keep_capabilities(basis, told)
            return shown
        return self._shown(told)

    def _refs(self) -> Iterator[bytes]:
        self._admission.ask_hooks(is_fetch=False)
        self.take_slot(self._admission, is_fetch=False)
        return self._begun("--http-backend-info-refs")

    def _serve(self) -> None:
        """Answer one command of version 2, or one round of the earlier versions."""
        self.expect_type(_TYPE % b"request")
        limit = self._admission.config.max_body_bytes
        with self.received(self._admission, limit, is_fetch=True) as body:
            try:
                head = pktlines.head_of(body)
            except ValueError:
                raise malformed() from None
            if head.is_flush:  # git asks whether it may send more, or needs a password
                self.send(_TYPE % b"result", iter(()))
                return
            allowed = _COMMANDS if self._is_v2 else (b"",)
            if head.command not in allowed:
                raise malformed()
            self.command = head.command or b"fetch"
            self._serve_command(head, body)

    def _serve_command(self, head: pktlines.Head, body: IO[bytes]) -> None:
        admission = self._admission
        if self.command == BUNDLE_URI:
            if not admission.config.bundle_uri:
                raise malformed()
            permissions.ask_hooks(self.repo, contents=True, names=True)
            answer = bundle_uri_answer(self.repo, self.req) or pktlines.FLUSH
            self.send(_TYPE % b"result", iter([answer]))
            return
        self._make_fresh()
        is_fetch = self.command == b"fetch"
        admission.ask_hooks(is_fetch=is_fetch)
        if is_fetch:
            config = admission.config
            with self.waiting(config.queue_seconds + config.lag_seconds):
                admission.await_objects(body)
        self.take_slot(admission, is_fetch=is_fetch)
        if is_fetch:
            admission.tell_hooks(head.want)
        body.flush()
        self.send(_TYPE % b"result", self._begun(body=body))

    def _begun(self, *options: str, body: IO[bytes] | None = None) -> Iterator[bytes]:
        """Return git's output, which has begun.

        The store is checked again after git has begun to write: changesets hidden
        before that moment are not sent. If the check fails, git is started again.
        """
        admission, spoken = self._admission, self._spoken
        for number in range(_MOST_STARTS):
            if number or time.monotonic() - self._made_fresh > _SOON_SECONDS:
                self._make_fresh()
            if body:
                os.lseek(body.fileno(), 0, os.SEEK_SET)  # git's position, not Python's
            seen = admission.seen()
            self.running = UploadPack.start(
                admission.store,
                "--stateless-rpc",
                *options,
                spoken=spoken,
                slot=self.slot,
                stdin=body,
            )
            pieces = self.pieces()
            first = next(pieces, b"")
            if admission.is_safe(seen):
                break
            self.stop_git()
        else:
            raise HttpError.later(b"the repository keeps changing; try again")
        if not first:
            self.check_end()
        return itertools.chain((first,), pieces)

    def _shown(self, told: bytes) -> bytes:
        """Return the capabilities for this client, from those of git."""
        offers = self._admission.config.bundle_uri
        if offers and bundle_uri_answer(self.repo, self.req):
            return uploadpack.shown_capabilities(told, BUNDLE_URI)
        return uploadpack.shown_capabilities(told)
