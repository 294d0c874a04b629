"""How the indexes of changelog and manifest get into memory.

``decision`` is what was decided for one index, and why; ``mapped`` makes it so when
Mercurial opens a revlog. The configuration is ``configitems.IndexConfig``. Nothing here
knows git.
"""

from __future__ import annotations

from .decision import Decision, Reason
from .mapped import decisions

__all__ = ["Decision", "Reason", "decisions"]
