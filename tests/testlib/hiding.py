"""Content that becomes hidden, in a repository that hgweb serves to git."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .environment import add_config
from .exported import Exported
from .hgserver import HgServer
from .webserver import WebServer

WORD = "planted7f3a"
PLANTED = f"desc('{WORD}')"
CONFIG = """
[extensions]
amalgam =
strip =
amend =
[experimental]
evolution = all
[phases]
publish = no
new-commit = draft
"""


def fetch_of(oid: str, version: int) -> bytes:
    """Return the request for one object."""
    if version == 2:
        return f"0012command=fetch\n00010032want {oid}\n0009done\n0000".encode()
    return f"0032want {oid}\n00000009done\n".encode()


def has_pack(web: WebServer, oid: str) -> bool:
    """Tell whether the server sends an object, in any version of the protocol."""
    found = []
    for version in (2, 0):
        spoken = "version=2" if version == 2 else ""
        body = fetch_of(oid, version)
        _status, _headers, said = web.ask(
            "git-upload-pack", "POST", body, Git_Protocol=spoken
        )
        found.append(b"PACK" in said)
    return any(found)


def unpublished(root: Path, server: HgServer, config: str = "") -> Exported:
    """Make an empty repository where changesets stay drafts, and may be hidden."""
    store = Exported.init(root, server)
    add_config(store.root, CONFIG + config)
    return store


def with_draft(root: Path, server: HgServer) -> Exported:
    """Make a public changeset, and on top a draft with planted content."""
    store = unpublished(root, server)
    store.commit("file", text="public\n" * 50, message="public")
    store.hg("phase", "--public", ".")
    (store.root / WORD).write_text(f"{WORD}\n")
    store.hg("commit", "-qAm", WORD, "-d", "1 0")
    return store


def _hide(store: Exported) -> None:
    store.hg("update", "-q", f"p1({PLANTED})")
    store.hg("debugobsolete", store.ids(PLANTED)[0])


def _amend(store: Exported) -> None:
    store.hg("remove", "-f", WORD)
    store.hg("amend", "-q", "-m", "innocent")


def _keep_secret(store: Exported) -> None:
    store.hg("phase", "--force", "--secret", PLANTED)


def _strip(store: Exported) -> None:
    store.hg("strip", "-q", "--no-backup", PLANTED)


EVENTS: dict[str, Callable[[Exported], None]] = {
    "hidden": _hide,
    "amended": _amend,
    "secret": _keep_secret,
    "stripped": _strip,
}


def planted(store: Exported) -> list[str]:
    """Return the ids of commit, tree and blob with planted content."""
    oid = store.ids(PLANTED)[1]
    names = [oid, f"{oid}^{{tree}}", f"{oid}:{WORD}"]
    return [store.git("rev-parse", name) for name in names]
