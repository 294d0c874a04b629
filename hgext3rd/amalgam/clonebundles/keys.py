"""Keys of objects in a store: the owner, and a random part.

A key is ``OWNER-RANDOM.bundle`` or ``.hg``. It is chosen before the first byte of a
bundle is known, and never used twice. So an object never changes, and needs no copy to
get its name. The owner is one repository in one place. Does not know how to reach a
store.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

KEY = re.compile(r"([0-9a-f]{16})-[0-9a-f]{32}\.(?:bundle|hg)")


def owner_of(repo: RepoT) -> str:
    """Return the prefix of all keys of a repository.

    It differs for a copy, which has the same register: the copy must not delete bundles
    that the original advertises. It is the same in a container and over NFS, where
    paths and hosts differ, and after the loss of a register.
    """
    changelog = repo.unfiltered().changelog
    root = changelog.node(0) if len(changelog) else b""
    inode = os.stat(repo.path).st_ino
    return hashlib.sha256(b"%d %s" % (inode, root)).hexdigest()[:16]


def new_key(repo: RepoT, suffix: bytes) -> str:
    """Return a key that no object ever had."""
    return f"{owner_of(repo)}-{os.urandom(16).hex()}{suffix.decode()}"


def is_of(repo: RepoT, key: str) -> bool:
    """Return whether an object is of this repository."""
    found = KEY.fullmatch(key)
    return found is not None and found[1] == owner_of(repo)
