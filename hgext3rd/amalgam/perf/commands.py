"""The commands ``perf::amalgam-*``, and the requests to their processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

from mercurial import error, exthelper, util
from mercurial.cmdutil import formatteropts
from mercurial.i18n import _

from .. import compat
from ..trust import Trust
from . import passes, probe, repocopy, subjects, table
from .passes import Cache
from .samples import Failed, Sample
from .subjects import PROBE, Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from .passes import Take
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
_GIT_BUNDLES = (b"git-v2", b"cinnabar-v1")
_NODE = re.compile(rb"^ +([0-9a-f]{40})$", re.MULTILINE)


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
            take = run.probing(step, [], opts["manifest"])
            run.show(f"open {size}, {words}", subjects.INDEXES, take, remark=remark)


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
        nodes = run.facts(opts["manifest"])["nodes"]
        for kind in lookups:
            take = run.probing(kind, nodes[kind], opts["manifest"])
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
        (tip,) = run.facts(manifest=False)["nodes"]["tip"]
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
        made = os.path.join(run.root, b".hg", b"amalgam")

        def everything(row: Subject) -> tuple[Sample, Any]:
            for name in (b"git", b"map"):
                shutil.rmtree(os.path.join(made, name), ignore_errors=True)
            return export(row)

        def export(row: Subject) -> tuple[Sample, Any]:
            sample, output = run.processes.run_here(row, b"git::export", b"-T", b"json")
            (report,) = json.loads(output)
            names = ("changesets", "objects", "bytes")
            return sample, [report[name] for name in names]

        size = run.describe(manifest=False)
        for words, take in (("everything", everything), ("nothing new", export)):
            title = f"hg git::export, {words}, {size}"
            run.show(title, subjects.EXPORTS, take, run.all_files)


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
    with opened(ui, repo, opts, revisions=True) as run:
        size = run.describe(manifest=False)
        for kind in opts["type"] or [b"none-v2", b"git-v2"]:
            if kind in _GIT_BUNDLES:
                words, ways = [b"git::bundle", b"-t", kind], subjects.EXPORTS
            else:
                words, ways = (
                    [b"bundle", b"-q", b"--all", b"-t", kind],
                    subjects.INDEXES,
                )
            title = f"hg {b' '.join(words).decode()}, {size}"
            run.show(title, ways, run.bundling(words), run.all_files)


@eh.command(PROBE, [], _(b"REPO"), norepo=True)
def debug_probe(ui: UiT, path: bytes) -> None:
    """run a measurement inside a process, for the commands perf::amalgam-*

    The request is read from standard input, as JSON.
    """
    request = json.loads(ui.fin.read())
    repo = compat.open_repository(ui, path)
    answer = probe.measure if "step" in request else probe.facts
    ui.write(json.dumps(answer(repo, **request)).encode())


class Measuring:
    """Tools of a measuring command. Everything happens in a copy of the repository."""

    def __init__(
        self, ui: UiT, repo: RepoT, root: bytes, fm: Any, cache: bytes
    ) -> None:
        self.root = root
        """Of the copy."""
        self.processes = Processes.of(ui, root)
        self._ui = ui
        self._caches = _CACHES[cache]
        self._limits = limits(ui)
        self._threshold_bytes = repo.svfs.options[b"data-config"].mmap_index_threshold
        self._fm = fm
        self._facts: dict[bool, dict[str, Any]] = {}

    def show(
        self,
        title: str,
        ways: Sequence[Subject],
        take: Take,
        paths: Callable[[], Sequence[bytes]] | None = None,
        remark: bytes = b"",
    ) -> None:
        """Measure one table and print it; ``remark`` comes below its title.

        ``paths`` are the files in the state of the cache, by default all but filelogs.
        """
        files = paths or self._index_files
        with self._ui.makeprogress(_(b"measuring"), unit=_(b"samples")) as progress:
            filled = passes.measure(
                ways, self._caches, files, take, self._limits, progress.update
            )
        table.show(self._fm, title, filled, remark)

    def all_files(self) -> list[bytes]:
        """Return all files of the copy."""
        return repocopy.below(os.path.join(self.root, b".hg"))

    def facts(self, manifest: bool) -> dict[str, Any]:
        """Return facts of an index from another process: this one maps nothing."""
        if manifest not in self._facts:
            request = {"manifest": manifest}
            self._facts[manifest] = self.processes.probe(subjects.READ, request)
        return self._facts[manifest]

    def describe(self, manifest: bool) -> str:
        """Return name and size of an index."""
        facts = self.facts(manifest)
        megabytes = facts["bytes"] / 1e6
        return f"{facts['name']} ({facts['revs']} revisions, {megabytes:.1f} MB)"

    def remark_on_size(self, manifest: bool) -> bytes:
        """Say that an index is not mapped as hg is configured here; or nothing."""
        facts = self.facts(manifest)
        if facts["inline"]:
            return _(b"inline, so it is never mapped: revisions are in the same file")
        least = self._threshold_bytes
        if least is None:
            return _(b"not mapped as configured here; 'mmap' and 'snapshot' map it")
        if facts["bytes"] < least:
            text = _(
                b"too small to be mapped by default (less than %s); "
                b"'mmap' and 'snapshot' map it nevertheless"
            )
            return text % util.bytecount(least)
        return b""

    def probing(self, step: str, nodes: Sequence[str], manifest: bool) -> Take:
        """Return a function that does a step of ``probe`` inside a process."""
        request = {"step": step, "nodes": nodes, "manifest": manifest}

        def take(row: Subject) -> tuple[Sample, Any]:
            found = self.processes.probe(row, request)
            return Sample(**found["sample"]), found["answer"]

        return take

    def running(self, arguments: Sequence[bytes]) -> Take:
        """Return a function that runs a whole command."""

        def take(row: Subject) -> tuple[Sample, Any]:
            sample, output = self.processes.run_here(row, *arguments)
            return sample, hashlib.sha1(output).digest()

        return take

    def bundling(self, words: Sequence[bytes]) -> Take:
        """Return a function that writes a bundle and reads its contents back.

        The same contents are read once, and reading is not timed.
        """
        path = os.path.join(self.root, b"bundle")
        known: dict[bytes, Any] = {}

        def take(row: Subject) -> tuple[Sample, Any]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            sample, _out = self.processes.run_here(row, words[0], path, *words[1:])
            with open(path, "rb") as file:
                digest = hashlib.sha1(file.read()).digest()
            if digest not in known:
                known[digest] = self._contents(path)
            return sample, known[digest]

        return take

    def _contents(self, path: bytes) -> Any:
        """Return the changesets of hg, or the refs of git, in a bundle."""
        with open(path, "rb") as file:
            if file.readline().endswith(b"git bundle\n"):
                return sorted(iter(file.readline, b"\n"))
        _sample, output = self.processes.run_here(subjects.READ, b"debugbundle", path)
        return _NODE.findall(output)

    def _index_files(self) -> list[bytes]:
        return repocopy.beside_revisions(self.root)


@contextlib.contextmanager
def opened(
    ui: UiT, repo: RepoT, opts: dict[str, Any], *, revisions: bool
) -> Iterator[Measuring]:
    """Yield the tools; a failed process ends the command with one line.

    ``revisions``: whether commands need more of the repository than its indexes.
    """
    if not os.path.exists("/proc/self/maps"):
        raise error.InputError(
            _(b"cannot measure without /proc"), hint=_(b"run it on Linux")
        )
    cache = opts["cache"]
    if cache not in _CACHES:
        raise error.InputError(
            _(b"unknown state of the cache: '%s'") % cache,
            hint=_(b"allowed: %s") % b", ".join(_CACHES),
        )
    Trust.of(ui, repo.store.path, repo.sharedpath).require(repo.sharedpath)
    limits(ui)  # before anything is copied
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with (
        repocopy.scratch_copy(repo, revisions=revisions) as root,
        ui.formatter(b"perf", byte_opts) as fm,
    ):
        run = Measuring(ui, repo, root, fm, cache)
        if not ui.configbool(b"perf", b"stub", False):
            time.sleep(float(ui.config(b"perf", b"presleep", b"1")))
        try:
            yield run
        except Failed as exc:
            raise error.StateError(
                _(b"measured process failed: %s") % _reason(str(exc))
            ) from exc
        except passes.Disagreement as exc:
            names = tuple(name.encode() for name in exc.names)
            raise error.StorageError(
                _(b"'%s' and '%s' give different answers") % names,
                hint=_(b"run 'hg admin::amalgam'"),
            ) from None


def limits(ui: UiT) -> passes.Limits:
    """Return when a table ends; ``ConfigError`` for a limit that is none."""
    if ui.configbool(b"perf", b"stub", False):
        return passes.Limits([(0.0, 1)])
    pairs = []
    for text in ui.configlist(b"perf", b"run-limits", [b"20.0-20", b"60.0-3"]):
        seconds, _dash, count = text.partition(b"-")
        try:
            pairs.append((float(seconds), int(count)))
        except ValueError:
            raise error.ConfigError(
                _(
                    b"invalid value '%s' for perf.run-limits "
                    b"(expected SECONDS-PASSES, such as 3.0-100)"
                )
                % text
            ) from None
    return passes.Limits(pairs)


def _reason(stderr: str) -> bytes:
    """Return the line that says why hg failed."""
    lines = stderr.splitlines() or ["it said nothing"]
    aborts = [line for line in lines if line.startswith("abort: ")]
    return (aborts or lines)[0].removeprefix("abort: ").encode()
