"""An extension of hg that writes what amalgam logs to stderr."""

from __future__ import annotations

import os
from typing import Any


def reposetup(ui: Any, _repo: Any) -> None:
    """Log what is of amalgam."""
    ui.setlogger(b"amalgam-tests", _Logger())


class _Logger:
    def tracked(self, event: bytes) -> bool:
        return event == b"amalgam"

    def log(self, _ui: Any, _event: bytes, message: bytes, _options: Any) -> None:
        os.write(2, message)
