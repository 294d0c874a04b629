"""Metrics of a repository, in the text format of Prometheus: ``admin::amalgam``.

Owns the names of metrics, which monitoring depends on, and how labels are written. Does
not know how anything is measured.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ..clonebundles.status import BundlesStatus
from ..config import ServeConfig
from ..gitpeer import follow
from ..gitstore import oidmap
from ..gitstore.status import StoreStatus
from ..index import opening
from ..locking import LockState
from ..records import Record
from ..remote.status import ReplicaStatus
from ..serve import admission, limits
from ..terminal import one_line, printable
from . import admin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    from mercurial.interfaces.types import RepoT, UiT

    from ..clonebundles.status import Row
    from ..gitpeer.follow import Leader

    Labels: TypeAlias = "tuple[tuple[bytes, bytes], ...]"

_LIVE = b"live"


class Family(Record):
    """A metric and its samples."""

    name: bytes
    """Without the prefix ``amalgam_``."""
    help: bytes
    samples: tuple[tuple[Labels, int | float], ...]
    """No two have the same labels."""
    type: bytes = b"gauge"
    """``gauge``: goes up and down; ``counter``: goes up, or begins again."""

    def lines(self, labels: Labels) -> Iterator[bytes]:
        """Yield the lines, if any sample exists; each sample has ``labels``."""
        if self.samples:
            yield b"# HELP amalgam_%s %s" % (self.name, self.help)
            yield b"# TYPE amalgam_%s %s" % (self.name, self.type)
        for own, value in self.samples:
            pairs = b",".join(b'%s="%s"' % (n, _label(v)) for n, v in labels + own)
            number = b"%d" % value if isinstance(value, int) else b"%.3f" % value
            yield b"amalgam_%s{%s} %s" % (self.name, pairs, number)


def run(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """Answer ``admin::amalgam --metrics``."""
    for name in ("repair", "template"):
        if opts[name]:
            text = _(b"cannot specify both --metrics and --%s")
            raise error.InputError(text % name.encode())
    labels = ((b"repository", repo.root),)
    for family in families(ui, repo):
        for line in family.lines(labels):
            ui.write(one_line(line))
    return 0


def families(ui: UiT, repo: RepoT) -> list[Family]:
    """Measure everything."""
    store = admin.store_of(ui, repo)
    status = StoreStatus.of(store) if store else StoreStatus()
    bundles = BundlesStatus.of(repo)
    problems = {it.text for it in admin.general_problems(repo)}
    problems.update(it.text for it in (*status.problems, *bundles.problems))
    remotes = ReplicaStatus.all_of(store) if store else []
    problems.update(it.text for it in admin.replication_problems(remotes))
    leaders = follow.leaders(repo)
    problems.update(it.text for it in admin.following_problems(leaders))
    return [
        _gauge(b"problems", b"Problems that need a person.", len(problems)),
        *(_of_store(status) if store else ()),
        *_of_bundles(bundles),
        *_of_remotes(remotes),
        *_of_leaders(leaders),
        *_of_indexes(repo),
        *_of_serving(repo.ui),
    ]


def _of_store(status: StoreStatus) -> Iterator[Family]:
    is_running = status.lock is not None and status.lock.state is LockState.RUNNING
    done = status.served - status.behind
    for name, explained, value in (
        (b"store_exists", b"Whether there was an export.", status.exists),
        (b"changesets_served", b"Changesets that git users should get.", status.served),
        (b"changesets_exported", b"Served changesets that are exported.", done),
        (b"changesets_behind", b"Served ones that are not.", status.behind),
        (
            b"changesets_gone",
            b"Exported ones that were amended, hidden or stripped since.",
            status.gone,
        ),
        (
            b"metadata_changesets_behind",
            b"Exported ones that the metadata for git-cinnabar does not name.",
            status.metadata_behind,
        ),
        (b"refs", b"Branches and tags.", status.refs),
        (b"refs_behind", b"Those that an export would change.", status.refs_behind),
        (b"objects", b"Git objects in packs.", status.objects),
        (b"packs", b"Packs.", status.packs),
        (b"pack_bytes", b"Size of the packs and their indexes.", status.pack_bytes),
        (
            b"pack_peak_bytes",
            b"What these take at most while packs are rolled up.",
            status.peak_bytes,
        ),
        (b"map_segments", b"Files of the oid map.", status.segments),
        (b"map_bytes", b"Size of the oid map.", status.map_bytes),
        (b"export_running", b"Whether an export is running.", is_running),
        (
            b"export_failures",
            b"Background exports that failed in a row.",
            status.export_failures,
        ),
        (
            b"maintenance_failures",
            b"Roll-ups of packs that failed in a row.",
            status.maintenance_failures,
        ),
    ):
        yield _gauge(name, explained, value)
    pairs = {
        table.name.lower().encode(): status.pairs.get(table, 0)
        for table in oidmap.Table
    }
    yield _labelled(b"map_pairs", b"Pairs of ids in the oid map.", b"kind", pairs)
    if status.last:
        when = b"When the last export ended that changed something."
        yield _gauge(b"last_export_timestamp_seconds", when, status.last.ended)
        seconds = status.last.milliseconds / 1000
        yield _gauge(b"last_export_seconds", b"Time it took.", seconds)
        count = status.last.changesets
        yield _gauge(b"last_export_changesets", b"Changesets it converted.", count)


def _of_bundles(status: BundlesStatus) -> Iterator[Family]:
    failed = b"Whether the last generation of bundles failed."
    yield _gauge(b"bundles_failed", failed, status.has_failed)

    def key(row: Row) -> tuple[bytes, bytes]:
        return row.format, row.state

    grouped = {
        kind: [*rows]
        for kind, rows in itertools.groupby(sorted(status.rows, key=key), key)
    }
    counts, sizes = [], []
    for (format_, state), rows in grouped.items():
        labels = ((b"format", format_), (b"state", state))
        counts.append((labels, len(rows)))
        sizes.append((labels, sum(row.bytes for row in rows)))
    yield Family(b"bundles", b"Bundles.", tuple(counts))
    yield Family(b"bundle_bytes", b"Their size.", tuple(sizes))
    newest = {
        format_: max(rows, key=lambda row: (row.changesets, row.made))
        for (format_, state), rows in grouped.items()
        if state == _LIVE
    }
    made = {format_: int(row.made) for format_, row in newest.items() if row.made}
    when = b"When the newest live bundle was made."
    yield _labelled(b"bundle_timestamp_seconds", when, b"format", made)
    missing = {format_: row.missing for format_, row in newest.items()}
    newer = b"Public changesets that are newer than it."
    yield _labelled(b"bundle_changesets_missing", newer, b"format", missing)


def _of_remotes(remotes: Sequence[ReplicaStatus]) -> Iterator[Family]:
    """Yield the samples of git remotes that are replicated to."""
    counter = b"counter"
    for name, explained, attribute, kind in (
        (
            b"lag_seconds",
            b"For how long a remote lacks a change that it did not refuse.",
            "lag_seconds",
            b"gauge",
        ),
        (
            b"last_success_timestamp_seconds",
            b"When it had all but refused refs for the last time.",
            "succeeded",
            b"gauge",
        ),
        (b"failures", b"Pushes that failed in a row.", "failures", b"gauge"),
        (b"pushes_total", b"Pushes of git to it.", "pushes", counter),
        (b"refs_written_total", b"Refs written there.", "written", counter),
    ):
        values = {it.name: int(getattr(it, attribute)) for it in remotes}
        family = _labelled(b"replicate_" + name, explained, b"remote", values)
        yield family._replace(type=kind)
    refused = {it.name: len(it.refused) for it in remotes}
    text = b"Refs that it refuses."
    yield _labelled(b"replicate_refs_refused", text, b"remote", refused)


def _of_leaders(leaders: Sequence[Leader]) -> Iterator[Family]:
    """Yield the samples of git repositories that are followed."""
    looks = {it.name: it.look for it in leaders if it.look}
    failed = {it.name: it.failure.attempts if it.failure else 0 for it in leaders}
    for name, explained, values, kind in (
        (
            b"lag_seconds",
            b"For how long looks at a git repository have failed.",
            {it.name: it.lag_seconds for it in leaders},
            b"gauge",
        ),
        (
            b"last_success_timestamp_seconds",
            b"When the last look succeeded.",
            {name: look.ended for name, look in looks.items()},
            b"gauge",
        ),
        (b"failures", b"Looks that failed in a row.", failed, b"gauge"),
        (
            b"changesets_total",
            b"Changesets that were pulled from it.",
            {name: look.changesets for name, look in looks.items()},
            b"counter",
        ),
    ):
        family = _labelled(b"follow_" + name, explained, b"remote", values)
        yield family._replace(type=kind)


def _of_indexes(repo: RepoT) -> Iterator[Family]:
    opened = {how.decision.name: how for how in opening.open_indexes(repo)}
    mapped = b"Whether an index is memory-mapped."
    values = {name: how.decision.mapped for name, how in opened.items()}
    yield _labelled(b"index_mapped", mapped, b"index", values)
    sizes = {name: how.decision.size_bytes for name, how in opened.items()}
    yield _labelled(b"index_bytes", b"Its size.", b"index", sizes)
    snapshots = {
        name: how.snapshot.length_bytes if how.snapshot else 0
        for name, how in opened.items()
    }
    yield _labelled(
        b"index_snapshot_bytes", b"Size of its snapshot.", b"index", snapshots
    )


def _of_serving(ui: UiT) -> Iterator[Family]:
    """Yield the samples of a readable run directory."""
    with contextlib.suppress(OSError, error.ConfigError, error.StorageError):
        config = ServeConfig.from_ui(ui)
        if config.run_directory is None:
            return
        pools = admission.pools(config)
        used = limits.slot_usage(config.run_directory, [pool.name for pool in pools])
        there = {pool.name: pool.slots for pool in pools}
        slots_text = b"Slots of this host; a request needs one."
        yield _labelled(b"serve_slots", slots_text, b"pool", there)
        held = {pool: usage.held for pool, usage in used.items()}
        yield _labelled(b"serve_slots_held", b"Those that are taken.", b"pool", held)
        waiting = {pool: usage.waiting for pool, usage in used.items()}
        text = b"Requests that wait for a slot."
        yield _labelled(b"serve_requests_waiting", text, b"pool", waiting)
        refused = {pool: usage.refused for pool, usage in used.items()}
        text = b"Requests that got no slot in time."
        family = _labelled(b"serve_requests_refused_total", text, b"pool", refused)
        yield family._replace(type=b"counter")


def _labelled(
    name: bytes, explained: bytes, label: bytes, values: Mapping[bytes, int]
) -> Family:
    samples = ((((label, which),), value) for which, value in values.items())
    return Family(name, explained, tuple(samples))


def _gauge(name: bytes, explained: bytes, value: float) -> Family:
    return Family(name, explained, (((), value),))


def _label(value: bytes) -> bytes:
    r"""Return a value as it is between quotes, in UTF-8.

    A line feed, a quote and a backslash come back as they were. Other control
    characters, and bytes that are no UTF-8, become ``\xNN``: no terminal obeys them.
    """
    parts = []
    for part in value.split(b"\n"):
        text = printable(part).decode("utf-8", "backslashreplace")
        parts.append(text.replace("\\", "\\\\").replace('"', '\\"'))
    return "\\n".join(parts).encode()
