"""The commands ``perf::amalgam-*``: what each measures, and the process it starts."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

from mercurial import error, exthelper
from mercurial.cmdutil import formatteropts
from mercurial.i18n import _

from .. import compat
from ..trust import Trust
from . import bundles, files, passes, probe, subjects, table
from .options import PerfConfig
from .passes import Cache
from .processes import PROBE, Processes
from .sample import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from .passes import Take
    from .sample import Sample
    from .subjects import Subject

eh = exthelper.exthelper()

_CACHES = {b"warm": [Cache.WARM], b"cold": [Cache.COLD], b"both": list(Cache)}
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

    Twice: until the entry of the last revision is known, and until all heads are,
    for which every entry is looked at. Only that is timed, not the start of hg.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    with _session(ui, repo, opts) as session:
        size = session.describe(opts["manifest"])
        for step, words in (("open", "the last entry"), ("heads", "all heads")):
            request = {"step": step, "nodes": [], "manifest": opts["manifest"]}
            take = session.probing(request)
            session.show(f"open {size}, {words}", subjects.INDEXES, take)


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
    with _session(ui, repo, opts) as session:
        size = session.describe(opts["manifest"])
        nodes = session.nodes(opts["manifest"])
        for kind in lookups:
            request = {
                "step": kind,
                "nodes": nodes[kind],
                "manifest": opts["manifest"],
            }
            take = session.probing(request)
            title = f"look up {_LOOKUPS[kind]} in {size}"
            session.show(title, subjects.LOOKUPS, take)


@eh.command(b"perf::amalgam-startup", _OPTIONS, _(b"[--cache STATE] [COMMAND]..."))
def perf_startup(ui: UiT, repo: RepoT, *commands: bytes, **opts: Any) -> None:
    """time whole commands of hg, from outside

    Each COMMAND is one argument. ``{tip}`` in it is the last node, ``{prefix}`` its
    first ten digits. The code of hg and of Python is always in memory: only files of
    the repository get cold.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    with _session(ui, repo, opts) as session:
        size = session.describe(manifest=False)
        (tip,) = session.nodes(manifest=False)["tip"]
        for command in commands or _STARTS:
            words = command.replace(b"{tip}", tip.encode())
            words = words.replace(b"{prefix}", tip[:10].encode())
            take = session.running(words.split())
            title = f"hg {command.decode()}, {size}"
            session.show(title, subjects.INDEXES, take)


@eh.command(b"perf::amalgam-export", _OPTIONS, _(b"[--cache STATE]"))
def perf_export(ui: UiT, repo: RepoT, **opts: Any) -> None:
    """time exports to git, of everything and of nothing new

    They are made from a copy of the repository that shares its files, below
    ``.hg/amalgam``; what was exported before stays as it is. How the index gets into
    memory matters little here: the rows show how little.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    with _session(ui, repo, opts) as session, files.scratch_copy(repo) as root:
        size = session.describe(manifest=False)
        made = os.path.join(root, b".hg", b"amalgam")

        def everything(subject: Subject, _profiled: bool) -> tuple[Sample, Any]:
            shutil.rmtree(os.path.join(made, b"git"), ignore_errors=True)
            shutil.rmtree(os.path.join(made, b"map"), ignore_errors=True)
            return export(subject, False)

        def export(subject: Subject, _profiled: bool) -> tuple[Sample, Any]:
            command = [b"git::export", b"-T", b"json"]
            sample, output = session.processes.run(subject, command, root=root)
            (report,) = json.loads(output)
            names = ("changesets", "objects", "bytes")
            return sample, [report[name] for name in names]

        for words, take in (("everything", everything), ("nothing new", export)):
            title = f"hg git::export, {words}, {size}"
            session.show(
                title, subjects.EXPORTS, take, lambda: files.below(root + b"/.hg")
            )


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

    TYPE is one of :hg:`bundle`, or ``git-v2`` or ``cinnabar-v1``, for which the history
    has been exported before. By default ``none-v2`` and ``git-v2``.

    They are made from a copy of the repository that shares its files, below
    ``.hg/amalgam``.

    See :hg:`help amalgam-perf` for rows, columns and options.
    """
    types = opts["type"] or [b"none-v2", b"git-v2"]
    with _session(ui, repo, opts) as session, files.scratch_copy(repo) as root:
        size = session.describe(manifest=False)
        for kind in types:
            words = bundles.command(kind)
            take = bundles.taking(session.processes, root, words)
            rows = subjects.EXPORTS if bundles.is_of_git(kind) else subjects.INDEXES
            title = f"hg {b' '.join(words).decode()}, {size}"
            session.show(title, rows, take, lambda: files.below(root + b"/.hg"))


@eh.command(PROBE, [], _(b"REPO"), norepo=True)
def debug_probe(ui: UiT, path: bytes) -> None:
    """do what is measured inside a process, for the commands perf::amalgam-*

    The request is read from standard input, as JSON.
    """
    request = json.loads(ui.fin.read())
    repo = compat.open_repository(ui, path)
    manifest = request["manifest"]
    if "step" not in request:
        found = probe.nodes(repo, manifest)
        revs, index_bytes, name = probe.sizes(repo, manifest)
        answer = {
            "nodes": {kind: [node.hex() for node in found[kind]] for kind in found},
            "revs": revs,
            "bytes": index_bytes,
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


class _Session:
    """One command: its options, its output, and the processes that it starts."""

    def __init__(self, ui: UiT, repo: RepoT, fm: Any, cache: bytes) -> None:
        if cache not in _CACHES:
            raise error.InputError(
                _(b"unknown state of the cache: '%s'") % cache,
                hint=_(b"allowed: %s") % b", ".join(_CACHES),
            )
        self.processes = Processes.of(ui, repo)
        self._caches = _CACHES[cache]
        self._config = PerfConfig.from_ui(ui)
        self._repo = repo
        self._fm = fm
        self._facts: dict[bool, dict[str, Any]] = {}

    def show(
        self,
        title: str,
        rows: Sequence[Subject],
        take: Take,
        paths: Callable[[], Sequence[bytes]] | None = None,
    ) -> None:
        """Measure one table and print it."""
        if paths is None:
            paths = self._beside_revisions
        filled = passes.measure(rows, self._caches, paths, take, self._config)
        all_timing = self._config.all_timing
        table.show(self._fm, title, rows, self._caches, filled, all_timing=all_timing)

    def describe(self, manifest: bool) -> str:
        """Return name and size of an index."""
        facts = self._ask(manifest)
        megabytes = facts["bytes"] / 1e6
        return f"{facts['name']} ({facts['revs']} revisions, {megabytes:.1f} MB)"

    def nodes(self, manifest: bool) -> dict[str, list[str]]:
        """Return the nodes that look-ups are about, in hexadecimal."""
        nodes: dict[str, list[str]] = self._ask(manifest)["nodes"]
        return nodes

    def probing(self, request: dict[str, Any]) -> Take:
        """Return what has the request done inside a process."""

        def take(subject: Subject, profiled: bool) -> tuple[Sample, Any]:
            sample, answer = self.processes.probe(subject, request, profiled=profiled)
            assert sample is not None
            return sample, answer

        return take

    def running(self, arguments: Sequence[bytes]) -> Take:
        """Return what runs a whole command."""

        def take(subject: Subject, profiled: bool) -> tuple[Sample, Any]:
            sample, output = self.processes.run(
                subject, arguments, root=self.processes.root, profiled=profiled
            )
            return sample, hashlib.sha1(output).digest()

        return take

    def _ask(self, manifest: bool) -> dict[str, Any]:
        """Ask another process, so that this one has nothing mapped."""
        if manifest not in self._facts:
            request = {"manifest": manifest}
            _sample, answer = self.processes.probe(subjects.READ, request)
            self._facts[manifest] = answer
        return self._facts[manifest]

    def _beside_revisions(self) -> list[bytes]:
        return files.beside_revisions(self._repo)


@contextlib.contextmanager
def _session(ui: UiT, repo: RepoT, opts: dict[str, Any]) -> Iterator[_Session]:
    """Yield a session; what a process could not do ends it with one line."""
    if not os.path.exists("/proc/self/maps"):
        raise error.InputError(_(b"cannot measure without /proc"))
    Trust.of(ui, repo.store.path, repo.sharedpath).require(repo.sharedpath)
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"perf", byte_opts) as fm:
        session = _Session(ui, repo, fm, opts["cache"])
        time.sleep(PerfConfig.from_ui(ui).presleep)
        try:
            yield session
        except Failed as exc:
            raise error.StateError(
                _(b"measured process failed: %s") % _reason(str(exc))
            ) from exc


def _reason(stderr: str) -> bytes:
    """Return the line that says why hg failed."""
    lines = stderr.splitlines() or ["it said nothing"]
    aborts = [line for line in lines if line.startswith("abort: ")]
    return (aborts or lines)[0].removeprefix("abort: ").encode()
