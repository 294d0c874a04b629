"""The profiles by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .branches import CrissCross, Topics
from .realistic import Realistic
from .shapes import Linear, ManyHeads, Merges
from .sizes import DeepDirectories, LargeFiles, ManyFiles

if TYPE_CHECKING:
    from .profile import Profile

PROFILES: dict[str, type[Profile]] = {
    "realistic": Realistic,
    "linear": Linear,
    "merges": Merges,
    "topics": Topics,
    "criss-cross": CrissCross,
    "many-files": ManyFiles,
    "deep-directories": DeepDirectories,
    "many-heads": ManyHeads,
    "large-files": LargeFiles,
}
