"""Ids over HTTP: from changeset to commit, and back, as JSON.

A request passes the checks of a fetch. Then the oid map has only served changesets, so
an abbreviation is looked up among these, and its time depends on nothing hidden.
Changesets that are served but not exported are known by their full node. An answer does
not repeat the question: for hidden and unknown ids it is the same, byte for byte.
``docs/hosting.rst`` shows requests and answers.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from typing import TYPE_CHECKING, Any

from mercurial import wireprotov1server
from mercurial.node import bin as bin_node, hex as hex_node

from ..configitems import is_enabled
from ..gitstore import ids, oidmap as oidmaps, selection
from ..gitstore.oidmap import Side
from ..loading import load
from ..records import Record
from . import permissions
from .admission import Admission
from .errors import HttpError
from .httprequest import GitRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..gitstore.ids import Translation


TYPE = b"application/json"
MOST = 10_000
"""How many ids one request may ask for."""
MOST_BYTES = 1 << 20
"""Limit of a request: twice the size of this many ids."""
UNKNOWN = b"unknown"
AMBIGUOUS = b"ambiguous"
_KINDS = {Side.NODE: "hg", Side.OID: "git"}


class FoundId(Record):
    """A changeset that an id names."""

    asked: Side
    """Which of its ids was asked for."""
    node: bytes
    oid: bytes | None
    """Its commit; ``None`` if it is not exported."""


def parse(content: bytes) -> Sequence[bytes]:
    """Return the ids that a request asks for; ``HttpError`` if it is malformed."""
    load(json)
    try:
        asked = json.loads(content)["ids"]
    except (KeyError, RecursionError, TypeError, ValueError):
        raise _malformed() from None
    if not isinstance(asked, list) or not all(isinstance(it, str) for it in asked):
        raise _malformed()
    if len(asked) > MOST:
        raise HttpError(413, b"a request may have at most %d ids" % MOST)
    # other characters are in no id
    return [it.encode("ascii", "replace") for it in asked]


def _malformed() -> HttpError:
    return HttpError(
        400, b'the request is malformed (expected {"ids": ["ID", ...]} in JSON)'
    )


def one(answer: FoundId | bytes) -> bytes:
    """Return the body for one id; for one without an answer, the reason."""
    load(json)
    return json.dumps(_item(answer)).encode("ascii") + b"\n"


def many(found: Iterable[FoundId | bytes]) -> bytes:
    """Return the body for several ids, in their order."""
    return json.dumps({"ids": [*map(_item, found)]}).encode("ascii") + b"\n"


def _item(answer: FoundId | bytes) -> dict[str, str | None]:
    if isinstance(answer, bytes):
        return {"error": answer.decode("utf-8", "replace")}
    return {
        "kind": _KINDS[answer.asked],
        "node": hex_node(answer.node).decode("ascii"),
        "gitnode": hex_node(answer.oid).decode("ascii") if answer.oid else None,
    }


_ROUTE = b"amalgam/id"
_OF_ONE = _ROUTE + b"/"
_MOST_TRIES = 5
"""How often ids are looked up if the repository hides something meanwhile."""


def handle_request(
    orig: Callable[..., bool], rctx: Any, req: Any, res: Any, checkperm: Any
) -> bool:
    """Answer a request for ids; leave all others to Mercurial."""
    load(sys.modules[__name__])
    path = req.dispatchpath or b""
    is_ours = path == _ROUTE or path.startswith(_OF_ONE)
    if not is_ours or not is_enabled(rctx.repo.ui):
        return orig(rctx, req, res, checkperm)
    may = functools.partial(checkperm, rctx, req)
    _IdRequest(rctx.repo, req, res).serve(may)
    return True


class _IdRequest(GitRequest):
    """A request on one of the routes."""

    def answer(self, may: Callable[[bytes], None]) -> None:
        """Answer it; ``HttpError`` or ``ErrorResponse`` if that may not be."""
        req = self.req
        self.command = b"id"
        may(b"pull")
        is_one = req.dispatchpath != _ROUTE
        if is_one:
            self.expect(b"GET")
        else:
            self.expect(b"POST")
            self.expect_type(TYPE)
        self._proto = permissions.of_http(self.repo, req, may)
        admission = Admission(self.repo, self._proto)
        self.watch(admission.config)
        if not is_one:
            limit = min(admission.config.max_body_bytes, MOST_BYTES)
            with self.received(admission, limit) as body:
                asked = parse(body.read())
            content = many(self._found(admission, asked))
        else:
            asked = [req.dispatchpath[len(_OF_ONE) :]]
            if req.rawenv.get(b"PATH_INFO", b"").endswith(b"/"):
                asked = [b""]  # hgweb has taken the slash away
            (found,) = self._found(admission, asked)
            if isinstance(found, bytes):
                raise HttpError(404, found)
            content = one(found)
        self.send_whole(TYPE, content)

    def _found(
        self, admission: Admission, asked: Sequence[bytes]
    ) -> list[FoundId | bytes]:
        """Return the meaning of each id, or the reason why it has none.

        An id is unknown only if everything that is served is exported.
        """
        found = self._looked_up(admission, asked, now=self.wants_now)
        if UNKNOWN in found and not admission.is_current():
            found = self._looked_up(admission, asked, now=True)
        return found

    def _looked_up(
        self, admission: Admission, asked: Sequence[bytes], *, now: bool
    ) -> list[FoundId | bytes]:
        """Look ids up among the exported changesets, then among the served ones."""
        store = admission.store
        for _number in range(_MOST_TRIES):
            with self.waiting(admission.config.queue_seconds):
                admission.make_fresh(now=now)
            docket = store.docket()
            try:
                with contextlib.closing(store.open_map(docket)) as oidmap:
                    meanings = ids.translate(oidmap, asked)
            except FileNotFoundError:
                continue  # an export has just merged segments
            if admission.is_safe() and store.docket() == docket:
                break
        else:
            raise HttpError.later(b"the repository keeps changing; try again")
        found = [*map(_meaning, meanings)]
        if UNKNOWN in found:
            self._add_others(asked, found)
        return found

    def _add_others(self, asked: Sequence[bytes], found: list[FoundId | bytes]) -> None:
        """Find changesets that are served and not exported."""
        # served changesets that were read before are allowed for this request
        selection.read_again(self.repo)
        shown = wireprotov1server.getdispatchrepo(self.repo, self._proto, b"lookup")
        changelog = shown.changelog
        for at, id_ in enumerate(asked):
            if found[at] != UNKNOWN or not ids.is_full(id_):
                continue
            node = bin_node(id_)
            rev = changelog.index.get_rev(node)
            if rev is not None and rev >= 0 and rev not in changelog.filteredrevs:
                found[at] = FoundId(oidmaps.Side.NODE, node, None)

    def explained(self, code: int, sentence: bytes) -> tuple[int, bytes, bytes]:
        """Return status, type and body of an answer that is an error."""
        return code, TYPE, one(sentence)


def _meaning(meanings: Sequence[Translation]) -> FoundId | bytes:
    if len(meanings) != 1:
        return AMBIGUOUS if meanings else UNKNOWN
    (found,) = meanings
    return FoundId(found.asked, found.node, found.oid)
