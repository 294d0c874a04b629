"""The kinds of git bundles, by the names that users know them by.

A module of their own, since every command of hg loads it: it has to stay small.
"""

from __future__ import annotations

from ..configitems import BUNDLE_KINDS

KINDS = GIT_V2, CINNABAR_V1 = BUNDLE_KINDS
