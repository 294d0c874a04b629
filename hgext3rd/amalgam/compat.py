"""Differences between the supported Mercurial versions.

Every branch has a tag in the form of hg-evolve: ``hg <=``, the last version that needs
it, and in parentheses what changed, with the changeset if known. A test checks the
tags. When a version is no longer supported, its branches go.
"""

from __future__ import annotations

from typing import Any

from mercurial import dispatch, hg


def request_of(arguments: list[bytes]) -> Any:
    """Return a request to ``dispatch``."""
    if hasattr(dispatch, "request"):
        # hg <= 7.1 (requests are made in dispatch)
        return dispatch.request(arguments)
    from mercurial import main_script

    return main_script.request(arguments)


def open_repository(ui: Any, path: bytes, **how: Any) -> Any:
    """Return the repository at ``path``; ``how`` is as for Mercurial's function."""
    if not hasattr(hg, "repo_factory"):
        # hg <= 7.1 (repositories are opened by hg)
        return hg.repository(ui, path, **how)
    return hg.repo_factory.repository(ui, path, **how)


def rc_files() -> list[bytes]:
    """Return the configuration files of system and user, by ``$HGRCPATH`` if set."""
    try:
        from mercurial.configuration import rcutil
    except ImportError:
        # hg <= 7.1 (components have no level)
        from mercurial import rcutil
    return [it[-1] for it in rcutil.rccomponents() if it[-2] == b"path"]


def withdraw(registrar: Any, name: bytes) -> None:
    """Unregister ``name``, before Mercurial has read the table."""
    registrar._table.pop(name, None)
    # hg <= 7.1 (safety was an attribute of the function)
    getattr(registrar, "_safe_set", set()).discard(name)
