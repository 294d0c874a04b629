"""What is advertised: the state of Mercurial's extension, with what the register knows.

Only looks. A bundle counts only as long as all that is in it is public here, and its
file, if it is on this machine, is there: ``lifecycle`` sees to it that the extension
thinks so, too, and that each bundle that it reads has its entry.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hgext import clonebundles

from . import addresses, headset
from .chain import Link, chain_of
from .kinds import CINNABAR_V1
from .register import Register, directory_of

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from .register import Entry


def attach(repo: RepoT, bundles: list[Any]) -> list[Any]:
    """Give each of ``bundles`` its entry in the register, or ``None``."""
    if not bundles:
        return bundles
    register = Register.read(repo)
    for bundle in bundles:
        name = os.fsdecode(bundle.basename) if bundle.ready else ""
        bundle.entry = register.entries.get(name)
    return bundles


def is_sound(repo: RepoT, entry: Entry | None) -> bool:
    """Tell whether what the register says of a bundle still holds."""
    if entry is None:
        return True
    return is_there(entry) and may_be_named(repo, entry)


def may_be_named(repo: RepoT, entry: Entry) -> bool:
    """Tell whether clients may be told of a bundle, be its file there or not."""
    return not must_return(repo, entry) and headset.is_public(repo, entry.heads)


def is_there(entry: Entry) -> bool:
    """Tell whether the file of a bundle is as it was, if it is on this machine."""
    if not entry.path:
        return True
    try:
        size = os.stat(os.path.join(entry.path, entry.name)).st_size
    except OSError:
        return False
    return size == entry.bytes


def must_return(repo: RepoT, entry: Entry) -> bool:
    """Tell whether a bundle is elsewhere, and since then readers are restricted."""
    here = os.fsdecode(directory_of(repo).base)
    return entry.path != here and not addresses.may_leave(repo.ui)


def chain(repo: RepoT) -> list[Link]:
    """Return the bundles for git that build upon each other, base first."""
    bundles = clonebundles.read_auto_gen(repo)
    return chain_of(bundles, lambda bundle: bundle.valid_for(repo))


def cinnabar(repo: RepoT) -> Entry | None:
    """Return the bundle for git-cinnabar, if there is one."""
    found = [
        bundle
        for bundle in clonebundles.read_auto_gen(repo)
        if bundle.ready and bundle.bundle_type == CINNABAR_V1
        if bundle.entry is not None and bundle.valid_for(repo)
    ]
    return max(found, key=lambda bundle: bundle.revs).entry if found else None
