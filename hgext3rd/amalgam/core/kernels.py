"""Version of the native core, and the SHA-1 kernels that it does not use.

Once per process, the core compares each kernel that the CPU offers with known answers.
It does not use kernels that fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .operation import Operation

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

PORTABLE = b"portable"
"""The kernel that is used where no other can be."""


def refused(ui: UiT) -> list[bytes]:
    """Return the names of the kernels that gave wrong answers, the fastest first.

    ``PORTABLE`` is used even if it is among them, because nothing else is left.
    """
    names: list[bytes] = Operation(ui, {}).job("core", {})["refused_kernels"]
    return names


def version_of_core(ui: UiT) -> bytes:
    """Return the version of the core that is loaded."""
    version: bytes = Operation(ui, {}).job("core", {})["version"]
    return version
