"""Each difference between the supported Mercurial versions, and nothing else.

Every branch carries a tag in the form of hg-evolve's: ``hg <=``, the last version that
needs it, and in parentheses what changed, with the changeset if known. A test checks
that; when a version is no longer supported, its branches go.
"""

from __future__ import annotations
