"""Questions for ids and their answers: JSON.

``docs/hosting.rst`` shows both. Knows neither hgweb nor a store. An answer does not
repeat the question, so what is not served is answered byte for byte as what does not
exist.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mercurial.node import hex as hex_node

from ...gitstore.state.oidmap import Side
from ...loading import load
from ...records import Record
from ..refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TYPE = b"application/json"
MOST = 10_000
"""How many ids one request may ask for."""
MOST_BYTES = 1 << 20
"""The bound of a request: twice what so many ids take."""
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
    """Return the ids that a request asks for; ``RefusedError`` if it is malformed."""
    load(json)
    try:
        asked = json.loads(content)["ids"]
    except (KeyError, RecursionError, TypeError, ValueError):
        raise _malformed() from None
    if not isinstance(asked, list) or not all(isinstance(it, str) for it in asked):
        raise _malformed()
    if len(asked) > MOST:
        raise RefusedError(413, b"a request may have at most %d ids" % MOST)
    # other characters are in no id
    return [it.encode("ascii", "replace") for it in asked]


def _malformed() -> RefusedError:
    return RefusedError(
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
