"""How the indexes of changelog and manifest get into memory.

``mapped`` is where Mercurial opens them. It asks ``indexfile`` what a file looks like,
``decision`` whether it is to be mapped, and ``opening`` for its bytes: a ``snapshot``,
with its ``docket``, in a ``buffer``. ``renewal`` brings snapshots up to date,
``examination`` compares them. The configuration is ``configitems.IndexConfig``. Nothing
here knows git.
"""

from __future__ import annotations

from .decision import Decision, Reason
from .examination import Examined, examine
from .mapped import Opened, decisions, open_indexes, opened, rebuild

__all__ = [
    "Decision",
    "Examined",
    "Opened",
    "Reason",
    "decisions",
    "examine",
    "open_indexes",
    "opened",
    "rebuild",
]
