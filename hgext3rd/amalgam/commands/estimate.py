"""The option --estimate of ``git::export``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import cmdutil, util
from mercurial.i18n import _

from ..config import GitConfig
from ..gitstore.forecast import Contents, Forecast, free_bytes
from ..gitstore.store import GitStore
from ..terminal import one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

_OTHERS = ("rev", "rebuild", "metadata", "adopt", "map", "full")


def run(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """Answer ``git::export --estimate``."""
    cmdutil.check_incompatible_arguments(opts, "estimate", _OTHERS)
    store = GitStore(repo, GitConfig.from_ui(ui, dialect=opts["dialect"]))
    contents = Contents.of(store.repo)
    forecast = Forecast.of(contents)
    free = free_bytes(store)
    changesets, manifests, files = contents[:3]
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"git-export-estimate", byte_opts) as fm:
        fm.startitem()
        fm.data(
            changesets=changesets.revisions,
            changeset_bytes=changesets.stored_bytes,
            cpu_seconds=round(forecast.cpu_seconds, 2),
            disk_bytes=forecast.disk_bytes,
            exists=bool(store.docket().packs),
            files=contents.files,
            file_bytes=files.stored_bytes,
            file_revisions=files.revisions,
            free_bytes=free,
            levels=contents.levels,
            manifests=manifests.revisions,
            manifest_bytes=manifests.stored_bytes,
            path=store.repository.path,
            text_bytes=files.text_bytes,
        )
        disk, room = map(util.bytecount, (forecast.disk_bytes, free))
        seconds = _(b"about %.1f seconds of processor time, all cores together")
        there = _(b"%d changesets, %d manifests, %d revisions of %d files")
        there %= (
            *(changesets.revisions, manifests.revisions),
            *(files.revisions, contents.files),
        )
        size = _(b"%s stored (changesets %s, manifests %s, files %s), %s of text")
        stored = [it.stored_bytes for it in (changesets, manifests, files)]
        size %= (*map(util.bytecount, (sum(stored), *stored, files.text_bytes)),)
        for label, text in (
            (_(b"history"), there),
            (_(b"size"), size),
            (_(b"disk"), _(b"about %s, of %s that are free") % (disk, room)),
            (_(b"time"), seconds % forecast.cpu_seconds),
        ):
            fm.plain(one_line(b"%-8s %s" % (label, text)))
        if not ui.quiet:
            hint = _(b"(by rates of other repositories; see 'hg help git::export')")
            fm.plain(one_line(hint))
    if forecast.disk_bytes > free:
        text = _(b"warning: too little disk space: %s are needed, %s are free")
        ui.warn(one_line(text % (disk, room)))
        ui.warn(_(b"(set amalgam.git.path to a directory of a larger file system)\n"))
    return 0
