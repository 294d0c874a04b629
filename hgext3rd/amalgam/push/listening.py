"""What Mercurial and its hooks say while a push is applied, for the one who pushes.

A hook may print without end. So only the beginning is kept, and the rest is counted.
Mercurial itself holds one line in memory, however long.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mercurial import util
from mercurial.i18n import _

from ..terminal import utf8_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mercurial.interfaces.types import UiT

_MOST_BYTES = 1 << 14


@contextlib.contextmanager
def listening(ui: UiT, said: list[bytes]) -> Iterator[None]:
    """Append to ``said`` what is printed by ``ui`` in the context, by line in UTF-8."""
    ui.pushbuffer(error=True, subproc=True)
    heard = ui._buffers[-1] = _Heard()  # where Mercurial puts the pieces
    try:
        yield
    finally:
        said += map(utf8_of, ui.popbuffer().splitlines())
        if heard.left_out_bytes:
            lost = util.bytecount(heard.left_out_bytes)
            said.append(_(b"(%s more were printed)") % lost)


class _Heard(list[bytes]):
    """The beginning of what is said."""

    def __init__(self) -> None:
        super().__init__()
        self._room = _MOST_BYTES
        self.left_out_bytes = 0

    def extend(self, pieces: Iterable[bytes]) -> None:
        """Keep ``pieces`` while there is room."""
        for piece in pieces:
            kept = piece[: self._room]
            self._room -= len(kept)
            self.left_out_bytes += len(piece) - len(kept)
            if kept:
                super().append(kept)
