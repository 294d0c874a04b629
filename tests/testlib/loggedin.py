"""An extension of hg: all clients of hgweb are one user, as behind a web server.

A web server that has asked for a password says who it is in ``REMOTE_USER``.
"""

from __future__ import annotations

from typing import Any

from mercurial import extensions
from mercurial.hgweb import request

USER = "ann@example.org"


def extsetup(_ui: Any) -> None:
    """Put the user into the environment of each request."""
    extensions.wrapfunction(request, "parserequestfromenv", _parse)


def _parse(parse: Any, env: dict[Any, Any], *args: Any, **kwargs: Any) -> Any:
    return parse({**env, "REMOTE_USER": USER}, *args, **kwargs)
