"""Who wrote a changegroup: the native core, or Mercurial, and why."""

from __future__ import annotations

import re
from pathlib import Path

LOG = ("--config", "extensions.blackbox=", "--config", "blackbox.track=amalgam")
"""Options of a command whose changegroups ``took`` is to tell."""

STOCK = ("--config", "amalgam.bundles.native=no")
"""Mercurial writes all changegroups."""

ALONE = ("--config", "extensions.amalgam=!")
"""Mercurial without amalgam."""


def took(repo: Path) -> list[str]:
    """Return what was logged of changegroups since the last call."""
    log = repo / ".hg" / "blackbox.log"
    text = log.read_text() if log.exists() else ""
    log.write_text("")
    return re.findall(r"changegroup of \d+ changesets is (.*)", text)
