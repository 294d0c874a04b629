"""Names of files that git refuses to check out, and how to clone in spite of them.

git checks out all files of a commit or none, so one such name fails each clone. Owns
the rules of git's read-cache.c. Exports leave names alone, but in hg-git's dialect they
leave out files as hg-git does.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from mercurial import encoding, error, util

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

# code points that HFS+ ignores, in UTF-8 (git's utf8.c, next_hfs_char)
_IGNORED = re.compile(rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf")
_ALWAYS = re.compile(rb"(?i)(?:^|/)(?:\.?\.?|\.git)(?=/|$)")
"""Refused by every git."""
_ON_NTFS = re.compile(rb"(?i)(?:^|[/\\])(?:\.git|git~1)[ .]*(?::[^/\\]*)?(?=[/\\]|$)")
"""Refused unless ``core.protectNTFS`` is off; it is on everywhere."""
# few names need a closer look
_SUSPICIOUS = re.compile(rb"(?i)git|[\xe2\xef]|(?:^|/)\.?\.?(?:/|$)")
_SHORT = re.compile(rb"(?i)git[^~]*~[0-9]+")
_NOT_THESE = (":(exclude,icase,glob)**/.git", ":(exclude,icase,glob)**/.git/**")
# manifest nodes and the name found; a page of hgweb asks each time
_found: Any = util.lrucachedict(64)


def is_refused(path: bytes) -> bool:
    """Return whether git refuses to check out a file of this name, on some system."""
    path = _IGNORED.sub(b"", path)
    return bool(_ALWAYS.search(path) or _ON_NTFS.search(path))


def is_left_out(path: bytes) -> bool:
    """Return whether trees of hg-git's dialect have no file of this name.

    ``rust/dialect/src/hggit/paths.rs`` has the same rule.
    """
    return any(
        encoding.hfsignoreclean(part) == b".git" or _SHORT.fullmatch(part)
        for part in path.split(b"/")
    )


def in_clone(repo: RepoT) -> bytes:
    """Return a name that git refuses of the changeset that a clone checks out.

    Empty if there is none. Costs some 0.2 microseconds for each file, once.
    """
    try:
        context = repo[repo._bookmarks.get(b"@") or repo.branchtip(b"default")]
    except error.RepoLookupError:
        context = repo[b"tip"]
    node = context.manifestnode()
    if node not in _found:
        names = [
            name
            for name in context.manifest()
            if _SUSPICIOUS.search(name) and is_refused(name)
        ]
        names.sort(key=lambda name: not _ALWAYS.search(name))
        _found[node] = names[0] if names else b""
    name: bytes = _found[node]
    return name


def clone_command(name: bytes, url: bytes) -> bytes:
    """Return the command that clones a repository that has the refused ``name``."""
    words = ["git", "clone", "-c", "core.protectNTFS=false"]
    if _IGNORED.search(name):
        words += ["-c", "core.protectHFS=false"]
    if not _ALWAYS.search(name):
        return os.fsencode(shlex.join([*words, os.fsdecode(url)]))
    words += ["--no-checkout", os.fsdecode(url), "clone"]
    checkout = ["git", "-C", "clone", "checkout", "HEAD", "--", ".", *_NOT_THESE]
    return os.fsencode(f"{shlex.join(words)} && {shlex.join(checkout)}")
