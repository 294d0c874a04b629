"""The commands ``perf::amalgam-*``, and the requests to their processes."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from mercurial import error, exthelper
from mercurial.cmdutil import formatteropts
from mercurial.i18n import _

from .. import compat
from . import bundles, files, probe, subjects
from .measuring import opened
from .processes import PROBE

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT

    from .sample import Sample
    from .subjects import Subject

eh = exthelper.exthelper()

_OPTIONS = [
    (b"", b"cache", b"both", _(b"warm, cold or both"), _(b"STATE")),
    *formatteropts,
]
_MANIFEST = (b"m", b"manifest", False, _(b"the manifest's index"))
_LOOKUPS = {
    "tip": "the last node",
    "old": "the node of revision 10",
    "unknown": "a node that is not there",
    "prefix": "six digits of a node",
    "many": "1,000 nodes",
}
_STARTS = (b"log -l 5", b"log -r {tip}", b"log -r {prefix}", b"heads -q")


@eh.command(b"perf::amalgam-index", [_MANIFEST, *_OPTIONS], _(b"[-m] [--cache STATE]"))
def perf_index(ui: UiT, repo: RepoT, **opts: Any) -> None:
    """time how the index of the changelog gets into memory

    Examples::

      hg perf::amalgam-index
      hg perf::amalgam-index --manifest --cache cold

    Twice: until the entry of the last revision is known, and until all heads are,
    for which every entry is looked at. Only that is timed, not the start of hg.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    with opened(ui, repo, opts, revisions=False) as run:
        size = run.describe(opts["manifest"])
        remark = run.remark_on_size(opts["manifest"])
        for step, words in (("open", "the last entry"), ("heads", "all heads")):
            request = {"step": step, "nodes": [], "manifest": opts["manifest"]}
            take = run.probing(request)
            title = f"open {size}, {words}"
            run.show(title, subjects.INDEXES, take, remark=remark)


@eh.command(
    b"perf::amalgam-node-lookup",
    [
        (b"", b"lookup", [], _(b"only this: %s") % ", ".join(_LOOKUPS).encode()),
        _MANIFEST,
        *_OPTIONS,
    ],
    _(b"[-m] [--lookup KIND]... [--cache STATE]"),
)
def perf_node_lookup(ui: UiT, repo: RepoT, **opts: Any) -> None:
    """time the first look-up of nodes in a fresh process

    Examples::

      hg perf::amalgam-node-lookup
      hg perf::amalgam-node-lookup --lookup tip --lookup many

    Opening the index is part of it.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    lookups = [kind.decode() for kind in opts["lookup"]] or list(_LOOKUPS)
    for kind in lookups:
        if kind not in _LOOKUPS:
            raise error.InputError(
                _(b"unknown lookup '%s'") % kind.encode(),
                hint=_(b"allowed: %s") % ", ".join(_LOOKUPS).encode(),
            )
    with opened(ui, repo, opts, revisions=False) as run:
        size = run.describe(opts["manifest"])
        remark = run.remark_on_size(opts["manifest"])
        nodes = run.nodes(opts["manifest"])
        for kind in lookups:
            request = {
                "step": kind,
                "nodes": nodes[kind],
                "manifest": opts["manifest"],
            }
            take = run.probing(request)
            title = f"look up {_LOOKUPS[kind]} in {size}"
            run.show(title, subjects.LOOKUPS, take, remark=remark)


@eh.command(b"perf::amalgam-startup", _OPTIONS, _(b"[--cache STATE] [COMMAND]..."))
def perf_startup(ui: UiT, repo: RepoT, *commands: bytes, **opts: Any) -> None:
    """time whole commands of hg, from outside

    Examples::

      hg perf::amalgam-startup
      hg perf::amalgam-startup "log -r {tip}" "heads -q"

    Each COMMAND is one argument. ``{tip}`` in it is the last node, ``{prefix}`` its
    first ten digits. The code of hg and of Python is always in memory: only files of
    the repository get cold. Commands run in a copy without a working directory, so
    ``status`` and others that look at it cannot be measured.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    with opened(ui, repo, opts, revisions=True) as run:
        size = run.describe(manifest=False)
        remark = run.remark_on_size(manifest=False)
        (tip,) = run.nodes(manifest=False)["tip"]
        for command in commands or _STARTS:
            words = command.replace(b"{tip}", tip.encode())
            words = words.replace(b"{prefix}", tip[:10].encode())
            take = run.running(words.split())
            title = f"hg {command.decode()}, {size}"
            run.show(title, subjects.INDEXES, take, remark=remark)


@eh.command(b"perf::amalgam-export", _OPTIONS, _(b"[--cache STATE]"))
def perf_export(ui: UiT, repo: RepoT, **opts: Any) -> None:
    """time exports to git, of everything and of nothing new

    Examples::

      hg perf::amalgam-export
      hg perf::amalgam-export --cache warm

    What was exported before stays as it is. How the index gets into memory matters
    little here: the rows show how little.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    with opened(ui, repo, opts, revisions=True) as run:
        root, size = run.root, run.describe(manifest=False)
        made = os.path.join(root, b".hg", b"amalgam")

        def everything(subject: Subject, _profiled: bool) -> tuple[Sample, Any]:
            shutil.rmtree(os.path.join(made, b"git"), ignore_errors=True)
            shutil.rmtree(os.path.join(made, b"map"), ignore_errors=True)
            return export(subject, False)

        def export(subject: Subject, _profiled: bool) -> tuple[Sample, Any]:
            command = [b"git::export", b"-T", b"json"]
            sample, output = run.processes.run(subject, command, root=root)
            (report,) = json.loads(output)
            names = ("changesets", "objects", "bytes")
            return sample, [report[name] for name in names]

        for words, take in (("everything", everything), ("nothing new", export)):
            title = f"hg git::export, {words}, {size}"
            run.show(title, subjects.EXPORTS, take, lambda: files.below(root + b"/.hg"))


@eh.command(
    b"perf::amalgam-bundle",
    [
        (b"t", b"type", [], _(b"only this kind of bundle"), _(b"TYPE")),
        *_OPTIONS,
    ],
    _(b"[-t TYPE]... [--cache STATE]"),
)
def perf_bundle(ui: UiT, repo: RepoT, **opts: Any) -> None:
    """time bundles of everything, for hg and for git

    Examples::

      hg perf::amalgam-bundle
      hg perf::amalgam-bundle -t zstd-v2 -t cinnabar-v1

    TYPE is one of :hg:`bundle`, or ``git-v2`` or ``cinnabar-v1``, for which the history
    has been exported before. By default ``none-v2`` and ``git-v2``.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    types = opts["type"] or [b"none-v2", b"git-v2"]
    with opened(ui, repo, opts, revisions=True) as run:
        root, size = run.root, run.describe(manifest=False)
        for kind in types:
            words = bundles.command(kind)
            take = bundles.taking(run.processes, root, words)
            rows = subjects.EXPORTS if bundles.is_of_git(kind) else subjects.INDEXES
            title = f"hg {b' '.join(words).decode()}, {size}"
            run.show(title, rows, take, lambda: files.below(root + b"/.hg"))


@eh.command(PROBE, [], _(b"REPO"), norepo=True)
def debug_probe(ui: UiT, path: bytes) -> None:
    """run a measurement inside a process, for the commands perf::amalgam-*

    The request is read from standard input, as JSON.
    """
    request = json.loads(ui.fin.read())
    repo = compat.open_repository(ui, path)
    manifest = request["manifest"]
    if "step" not in request:
        found = probe.nodes(repo, manifest)
        revs, index_bytes, inline, name = probe.sizes(repo, manifest)
        answer = {
            "nodes": {kind: [node.hex() for node in found[kind]] for kind in found},
            "revs": revs,
            "bytes": index_bytes,
            "inline": inline,
            "name": name.decode(),
        }
        ui.write(json.dumps({"answer": answer}).encode())
        return
    wanted = [bytes.fromhex(node) for node in request["nodes"]]
    sample, found, source = probe.measure(repo, request["step"], wanted, manifest)
    report = {
        "sample": dataclasses.asdict(sample),
        "answer": found,
        "source": source.value,
    }
    ui.write(json.dumps(report).encode())
