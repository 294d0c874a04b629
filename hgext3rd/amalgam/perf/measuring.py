"""One command: its options, its output, the copy it works on, and its processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from typing import TYPE_CHECKING, Any

from mercurial import error, util
from mercurial.i18n import _

from ..trust import Trust
from . import files, passes, subjects, table
from .options import PerfConfig
from .passes import Cache
from .processes import Processes
from .sample import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from .passes import Take
    from .sample import Sample
    from .subjects import Subject

_CACHES = {b"warm": [Cache.WARM], b"cold": [Cache.COLD], b"both": list(Cache)}


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
        self._config = PerfConfig.from_ui(ui)
        self._threshold_bytes = repo.svfs.options[b"data-config"].mmap_index_threshold
        self._fm = fm
        self._facts: dict[bool, dict[str, Any]] = {}

    def show(
        self,
        title: str,
        rows: Sequence[Subject],
        take: Take,
        paths: Callable[[], Sequence[bytes]] | None = None,
        remark: bytes = b"",
    ) -> None:
        """Measure one table and print it; ``remark`` comes below its title."""
        if paths is None:
            paths = self._beside_revisions
        with self._ui.makeprogress(_(b"measuring"), unit=_(b"samples")) as progress:
            filled = passes.measure(
                rows, self._caches, paths, take, self._config, progress.update
            )
        table.show(
            self._fm,
            title,
            rows,
            self._caches,
            filled,
            all_timing=self._config.all_timing,
            remark=remark,
        )

    def describe(self, manifest: bool) -> str:
        """Return name and size of an index."""
        facts = self._ask(manifest)
        megabytes = facts["bytes"] / 1e6
        return f"{facts['name']} ({facts['revs']} revisions, {megabytes:.1f} MB)"

    def remark_on_size(self, manifest: bool) -> bytes:
        """Say that an index is not mapped as hg is configured here; or nothing."""
        facts = self._ask(manifest)
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

    def nodes(self, manifest: bool) -> dict[str, list[str]]:
        """Return the nodes that look-ups are about, in hexadecimal."""
        nodes: dict[str, list[str]] = self._ask(manifest)["nodes"]
        return nodes

    def probing(self, request: dict[str, Any]) -> Take:
        """Return a function that runs the request inside a process."""

        def take(subject: Subject, profiled: bool) -> tuple[Sample, Any]:
            sample, answer = self.processes.probe(subject, request, profiled=profiled)
            assert sample is not None
            return sample, answer

        return take

    def running(self, arguments: Sequence[bytes]) -> Take:
        """Return a function that runs a whole command."""

        def take(subject: Subject, profiled: bool) -> tuple[Sample, Any]:
            sample, output = self.processes.run(
                subject, arguments, root=self.root, profiled=profiled
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
        return files.beside_revisions(self.root)


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
    config = PerfConfig.from_ui(ui)
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with (
        files.scratch_copy(repo, revisions=revisions) as root,
        ui.formatter(b"perf", byte_opts) as fm,
    ):
        run = Measuring(ui, repo, root, fm, cache)
        time.sleep(config.presleep)
        try:
            yield run
        except Failed as exc:
            raise error.StateError(
                _(b"measured process failed: %s") % _reason(str(exc))
            ) from exc


def _reason(stderr: str) -> bytes:
    """Return the line that says why hg failed."""
    lines = stderr.splitlines() or ["it said nothing"]
    aborts = [line for line in lines if line.startswith("abort: ")]
    return (aborts or lines)[0].removeprefix("abort: ").encode()
