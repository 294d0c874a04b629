"""The hook that refuses pushes: a git store is written by amalgam alone.

git runs it before it takes anything (githooks(5), "pre-receive"), wherever the push
comes from, unless who pushes may write to the store and goes around it: they could as
well write its files. Owns the directory ``hooks`` of a store, where nothing else stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...placement import Unusable

if TYPE_CHECKING:
    from ...placement import Directory, Placement

HOOKS = b"hooks"
_NAME = b"pre-receive"
# git starts it in the repository; its path is not written down, since it may be moved
_SCRIPT = b"""\
#!/bin/sh
# Written by amalgam, and written anew by each export.
cat > /dev/null
echo 'this repository is read-only for git' >&2
case $PWD in
*/.hg/amalgam/git/*)
    echo "(push with Mercurial to '${PWD%/.hg/amalgam/git/*}' instead)" >&2 ;;
*)
    echo '(push with Mercurial to the repository that it is made from)' >&2 ;;
esac
exit 1
"""


def write(directory: Directory, placement: Placement) -> None:
    """Write the hook of the store ``directory``, and remove all others."""
    hooks = directory.sub(HOOKS)
    hooks.make(placement)
    for name in hooks.names():
        if name != _NAME:
            hooks.remove(name)
    if not _is_written(hooks, placement):
        if hooks.exists(_NAME):
            hooks.remove(_NAME)  # it may be a directory
        hooks.replace(_NAME, _SCRIPT, placement, executable=True)


def _is_written(hooks: Directory, placement: Placement) -> bool:
    try:
        mode = hooks.stat(_NAME).st_mode & 0o7777
        is_ours = mode == placement.program_mode
        return is_ours and hooks.read(_NAME, len(_SCRIPT)) == _SCRIPT
    except (FileNotFoundError, Unusable):
        return False
