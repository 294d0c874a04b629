"""An extension of hg that asks clients of hgweb for a password."""

from __future__ import annotations

import base64
from typing import Any

from mercurial.hgweb import common

USER, PASSWORD = "user", "pass word"
EXPECTED = b"Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode())


def extsetup(_ui: Any) -> None:
    """Ask in each request."""
    common.permhooks.insert(0, _check)


def _check(_hgweb: Any, req: Any, _operation: Any) -> None:
    if req.headers.get(b"Authorization") != EXPECTED:
        headers = [(b"WWW-Authenticate", b'Basic realm="tests"')]
        raise common.ErrorResponse(common.HTTP_UNAUTHORIZED, b"who", headers)
