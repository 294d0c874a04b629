"""Decoder of commit messages and authors that are not UTF-8, with Python's codecs.

The core asks through pipes (``rust/git2hg/src/read/decoder.rs``), rarely. A thread
answers: the core does not hold the GIL.
"""

from __future__ import annotations

import os
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

_LENGTH = struct.Struct(">I")
_NO_TEXT = _LENGTH.pack(0xFFFFFFFF)


class TextDecoder:
    """The thread with its pipes, until the end of the context."""

    def __enter__(self) -> TextDecoder:
        """Start."""
        requested, self._requests = os.pipe()
        self._answers, answered = os.pipe()
        pipes = (os.fdopen(requested, "rb"), os.fdopen(answered, "wb"))
        self._thread = threading.Thread(target=_serve, args=pipes, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        """End."""
        os.close(self._requests)
        os.close(self._answers)
        self._thread.join()

    def fields(self) -> dict[str, int]:
        """Return the core's ends of the pipes."""
        return {"requests": self._requests, "answers": self._answers}


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    with requests, answers:
        while head := requests.read(_LENGTH.size):
            encoding = requests.read(*_LENGTH.unpack(head))
            text = requests.read(*_LENGTH.unpack(requests.read(_LENGTH.size)))
            found = decoded(encoding, text)
            answer = _NO_TEXT if found is None else _LENGTH.pack(len(found)) + found
            answers.write(answer)
            answers.flush()


def decoded(encoding: bytes, text: bytes) -> bytes | None:
    """Return ``text`` in UTF-8; ``None`` if it is not in a known ``encoding``."""
    try:
        return text.decode(encoding.decode("latin-1")).encode()
    except (LookupError, ValueError):
        return None
