"""The body of a request, in a file that finds no room."""

from __future__ import annotations

import errno
import io
import tempfile
from types import SimpleNamespace
from typing import Any

import pytest

from hgext3rd.amalgam.serve import httprequest
from hgext3rd.amalgam.serve.errors import HttpError


class _FullDisk(io.BytesIO):
    """Keeps what it could not write, as a buffered file does, until it is closed."""

    def write(self, _piece: Any) -> int:
        raise OSError(errno.EFBIG, "File too large")

    def close(self) -> None:
        super().close()
        raise OSError(errno.EFBIG, "File too large")


def test_what_could_not_be_written_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = _FullDisk()
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_place: file)
    request = SimpleNamespace(
        headers={b"Content-Length": b"4"}, rawenv={}, bodyfh=io.BytesIO(b"body")
    )
    connection: Any = SimpleNamespace(is_ambiguous=False)
    with (
        pytest.raises(HttpError, match="no room for the request"),
        httprequest.received_body(request, connection, 100, lambda *_moved: True),
    ):
        pass
    assert file.closed


def test_body_that_comes_too_slowly_is_refused() -> None:
    request = SimpleNamespace(
        headers={b"Content-Length": b"4"}, rawenv={}, bodyfh=io.BytesIO(b"body")
    )
    connection: Any = SimpleNamespace(is_ambiguous=False)
    with (
        pytest.raises(HttpError, match="too slowly"),
        httprequest.received_body(request, connection, 100, lambda *_moved: False),
    ):
        pass
