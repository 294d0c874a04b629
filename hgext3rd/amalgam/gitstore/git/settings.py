"""What the configuration of a git store says to git tools that others start.

None of it changes what objects mean. Values of others stay, unless they are about
pushes, which a store does not take (git-config(1)).
"""

from __future__ import annotations

import itertools
import os
import tempfile
from typing import TYPE_CHECKING

from mercurial import error

from .gitprocess import Git, settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...placement import Placement

# all that "git maintenance" of git 2.55 could do
_TASKS = (
    "prefetch",
    "loose-objects",
    "incremental-repack",
    "geometric-repack",
    "gc",
    "commit-graph",
    "pack-refs",
    "reflog-expire",
    "worktree-prune",
    "rerere-gc",
)
# Heads without a ref are unreachable for git but through the metadata commit, hence
# "never"; and manifests have modes that no checkout ever sees.
_OURS = (
    # relative to where hooks run, that is in the repository: never those of a user
    ("core.hooksPath", "hooks"),
    ("core.logAllRefUpdates", "false"),
    ("fsck.badFilemode", "ignore"),
    # git never maintains a store by itself: it would mix the packs of the layers
    ("gc.auto", "0"),
    ("gc.autoDetach", "false"),
    ("gc.autoPackLimit", "0"),
    ("gc.pruneExpire", "never"),
    ("maintenance.auto", "false"),
    ("maintenance.autoDetach", "false"),
    # no strategy: git 2.55 has none without tasks, and ends at the name of another
    *((f"maintenance.{task}.enabled", "false") for task in _TASKS),
    ("pack.writeReverseIndex", "true"),
    ("receive.autogc", "false"),
    ("transfer.hideRefs", "refs/cinnabar"),
)
# what is hidden, too, unless these heads are chosen
_OTHER_HEADS = ("transfer.hideRefs", "refs/hg")
_ANEW = (
    ("core.repositoryFormatVersion", "0"),
    ("core.fileMode", "true"),
    ("core.bare", "true"),
)
# keys that may have more values than ours
_SEVERAL = frozenset({"transfer.hideRefs"})


def new(placement: Placement, *, shows_heads: bool) -> bytes:
    """Return the configuration of a new store.

    ``shows_heads``: clients may see the refs of heads that have no other name.
    """
    return _sections([*_ANEW, *_wanted(placement, shows_heads)])


def edited(
    program: bytes, content: bytes, placement: Placement, *, shows_heads: bool
) -> bytes:
    """Return a configuration with our settings; ``program`` is git, which edits it.

    ``content`` itself if it has them. What git cannot read is written anew.
    """
    fresh = new(placement, shows_heads=shows_heads)
    if content == fresh:
        return content
    try:
        found = settings(program, content)
    except error.Abort:
        return fresh
    values: dict[str, list[str]] = {}
    for key_found, value_found in found:
        values.setdefault(os.fsdecode(key_found), []).append(os.fsdecode(value_found))
    ours = {key.lower() for key, _value in _OURS}
    commands: list[tuple[str, ...]] = [
        ("--unset-all", key)
        for key in values
        if key.startswith("receive.") and key not in ours
    ]
    key, value = _OTHER_HEADS
    if shows_heads and value in values.get(key.lower(), []):
        commands.append(("--unset-all", key, f"^{value}$"))
    for key, value in _wanted(placement, shows_heads):
        there = values.get(key.lower(), [])
        if key in _SEVERAL:
            if value not in there:
                commands.append(("--add", key, value))
        elif there != [value]:
            commands.append(("--replace-all", key, value))
    if not content:
        commands[:0] = [("--replace-all", key, value) for key, value in _ANEW]
    return _run(program, content, commands) if commands else content


def _run(program: bytes, content: bytes, commands: Iterable[tuple[str, ...]]) -> bytes:
    """Let git edit a copy of the configuration, in a directory that is ours alone."""
    outside = Git(program)
    with tempfile.TemporaryDirectory(prefix="amalgam-config-") as directory:
        path = os.path.join(directory, "config")
        with open(path, "wb") as file:
            file.write(content)
        for command in commands:
            outside.run("config", "--file", path, *command)
        with open(path, "rb") as file:
            return file.read()


def _wanted(placement: Placement, shows_heads: bool) -> list[tuple[str, str]]:
    hidden = () if shows_heads else (_OTHER_HEADS,)
    return [("core.sharedRepository", f"0{placement.file_mode:o}"), *_OURS, *hidden]


def _sections(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return settings as sections of a config file."""
    lines = []
    for name, group in itertools.groupby(pairs, lambda it: it[0].rpartition(".")[0]):
        section, dot, below = name.partition(".")
        lines.append(f'[{section} "{below}"]\n' if dot else f"[{section}]\n")
        lines += [f"\t{key.rpartition('.')[2]} = {value}\n" for key, value in group]
    return "".join(lines).encode()
