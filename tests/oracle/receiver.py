"""A receiver of bundles: receiver.py < JOBS. Stock Mercurial, and nothing of ours.

It runs with the interpreter of the Mercurial that receives. Each line of stdin is a
JSON list: a directory to make, then bundle files or URLs to take in turn. Each line of
stdout is a JSON object: what the repository has then, part by part. Two that are equal
have the same nodes, parents, linkrevs, flags and texts in every revlog, the same
phases, markers and caches, and nothing for `hg verify` to tell.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from mercurial import commands, extensions, hg, ui as uimod

with contextlib.suppress(ImportError):
    # since 7.2, what commands need is registered by hg's own start
    from mercurial import initialization

    initialization.__doc__  # noqa: B018

_FILES = (
    *("store/phaseroots", "cache/hgtagsfnodes1", "cache/rbc-names-v1"),
    *("cache/rbc-names-v2", "cache/rbc-revs-v1", "cache/rbc-revs-v2", "bookmarks"),
)
_CONFIG = (
    (b"ui", b"quiet", b"yes"),
    (b"ui", b"interactive", b"no"),
    (b"experimental", b"evolution", b"all"),
    (b"experimental", b"changegroup3", b"yes"),
    (b"censor", b"policy", b"ignore"),
    (b"worker", b"enabled", b"no"),
)


def received(
    target: str, sources: list[str], config: list[list[str]]
) -> dict[str, Any]:
    """Make a repository of ``sources`` and describe it."""
    ui = uimod.ui.load()
    for section, name, value in _CONFIG:
        ui.setconfig(section, name, value, b"receiver")
    for given in config:
        ui.setconfig(*map(os.fsencode, given), b"receiver")
    extensions.loadall(ui)
    path = os.fsencode(target)
    ui.pushbuffer(error=True)
    try:
        for source in sources:
            repo = hg.repository(ui, path, create=not os.path.exists(path))
            name = os.fsencode(source)
            if b"://" in name or os.path.isdir(name):
                commands.pull(ui, repo, name, remote_hidden=False)
            else:
                commands.unbundle(ui, repo, name)
        repo = hg.repository(ui, path).unfiltered()
        found = dict(parts(repo))
        found["verify"] = bool(hg.verify(repo))
    finally:
        said = ui.popbuffer().decode(errors="replace")
    if found["verify"]:
        found["verify"] = said
    return found


def parts(repo: Any) -> Iterator[tuple[str, Any]]:
    """Yield a name and a digest of each part of a repository."""
    yield "requirements", sorted(map(os.fsdecode, repo.requirements))
    # it is a revlog in some versions, and has one in others
    yield "changelog", of_revlog(getattr(repo.changelog, "_revlog", repo.changelog))
    storage = repo.manifestlog.getstorage(b"")
    yield "manifest", of_revlog(storage._revlog)
    for kind, name in sorted(revlogs(repo)):
        if kind == "files":
            yield f"file {os.fsdecode(name)}", of_revlog(repo.file(name)._revlog)
        else:
            log = repo.manifestlog.getstorage(name)._revlog
            yield f"manifest {os.fsdecode(name)}", of_revlog(log)
    for path in _FILES:
        content = repo.vfs.tryread(path.encode())
        yield path, hashlib.sha1(content).hexdigest() if content else ""
    markers = sorted(map(repr, repo.obsstore))
    yield "markers", hashlib.sha1("\n".join(markers).encode()).hexdigest()


def revlogs(repo: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the kind and name of each file and directory that has a history."""
    for entry in repo.store.data_entries():
        if entry.is_revlog and entry.target_id:
            yield ("files" if entry.is_filelog else "trees"), entry.target_id


def of_revlog(log: Any) -> str:
    """Return a digest of all revisions, read through the deltas that were received."""
    found = hashlib.sha1()
    for rev in log:
        parents = b"".join(log.parents(log.node(rev)))
        numbers = b"%d %d " % (log.linkrev(rev), log.flags(rev))
        text = log.rawdata(rev)
        found.update(log.node(rev) + parents + numbers + hashlib.sha1(text).digest())
    return f"{len(log)} revisions, {found.hexdigest()}"


def _anonymous(text: str, job: dict[str, Any]) -> str:
    for source in job["sources"]:
        text = text.replace(source, "SOURCE")
    return text


def main() -> None:
    """Do each job of stdin."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = received(job["target"], job["sources"], job.get("config", []))
        except Exception as exc:
            answer = {"error": f"{type(exc).__name__}: {_anonymous(str(exc), job)}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
