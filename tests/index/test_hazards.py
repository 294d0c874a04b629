"""What kills readers of a mapped index in stock Mercurial, or lies to them.

Each row of the hazard table: a process holds the indexes of a repository while another
truncates them. The writer has amalgam, or not. That the danger is real is shown by the
same reader without amalgam.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG
from testlib.reader import DiedError, Reader
from testlib.truncation import cut_under_load

pytestmark = pytest.mark.slow

COUNT = 3000  # entries of 64 bytes: 47 pages of 4 KiB
KEPT = 300
WITH = (
    "extensions.amalgam=",
    "experimental.mmapindex=yes",
    "experimental.mmapindexthreshold=4096",
)
WITHOUT = (
    "storage.revlog.mmap.index=yes",
    "storage.revlog.mmap.index:size-threshold=4096",
)
WRITER = ("extensions.strip=", "ui.rollback=yes", "phases.publish=no")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linear history, each changeset with a manifest of its own."""
    root = tmp_path_factory.mktemp("hazards")
    run(root, "init", "repo")
    run(root / "repo", "debugbuilddag", f"+{COUNT}", "--overwritten-file", "-q")
    return root / "repo"


@pytest.fixture
def repo(tmp_path: Path, made: Path) -> Path:
    """That repository, for one test alone."""
    return shutil.copytree(made, tmp_path / "repo")


@pytest.fixture(params=[WITH, ()], ids=["writer-with", "writer-without"])
def writer(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The configuration of the process that truncates."""
    config: tuple[str, ...] = request.param
    return config


def run(cwd: Path, *args: str, config: tuple[str, ...] = ()) -> None:
    """Run hg, with amalgam only if ``config`` says so."""
    subprocess.run(command(*args, config=config), cwd=cwd, env=ENVIRONMENT, check=True)


def command(*args: str, config: tuple[str, ...] = ()) -> list[str]:
    options = [word for item in (*WRITER, *config) for word in ("--config", item)]
    return [str(HG), *options, *args]


def strip(repo: Path, rev: int, config: tuple[str, ...]) -> None:
    run(repo, "debugstrip", "--no-backup", str(rev), config=config)


@contextlib.contextmanager
def reader(repo: Path, *, holding: str = "mapped") -> Iterator[Reader]:
    """A reader with amalgam, whose indexes are mapped, or as ``holding`` says."""
    with Reader(repo, WITH) as process:
        for log in ("changes", "manifests"):
            reason = process.ask(f"opened({log})")
            assert (reason == "large-enough") == (holding == "mapped"), reason
        yield process


def answers(process: Reader, last: int = COUNT - 1) -> list[object]:
    """What a reader says of its indexes, to be compared with what it said before."""
    questions = [
        f"[log.index[{last}] for log in (changes, manifests)]",
        "[log.index[0] for log in (changes, manifests)]",
        "[log.index.has_node(unknown) for log in (changes, manifests)]",
        "[changes.index.headrevs(), len(changes.index), len(manifests.index)]",
        f"[log.index.rev(log.node({last})) for log in (changes, manifests)]",
    ]
    return [process.ask(question) for question in questions]


@pytest.mark.sampled(1)
def test_strip(repo: Path, writer: tuple[str, ...]) -> None:
    with reader(repo) as process:
        before = answers(process)
        strip(repo, KEPT, writer)
        assert answers(process) == before
        process.ask("repo.invalidate()")
        assert process.ask("[len(repo.changelog), repo.changelog.headrevs()]") == [
            KEPT,
            [KEPT - 1],
        ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "question",
    [f"changes.index[{COUNT - 1}]", "changes.index.headrevs()"],
)
def test_strip_that_was_not_looked_for(
    repo: Path, writer: tuple[str, ...], question: str
) -> None:
    """The first access to a page is after the strip."""
    with reader(repo) as old, reader(repo) as process:
        before = old.ask(question)
        strip(repo, KEPT, writer)
        assert process.ask(question) == before
        assert process.ask("changes.index.has_node(unknown)") is False


def test_strip_and_a_lock_taken_after_it(repo: Path, writer: tuple[str, ...]) -> None:
    with reader(repo) as process:
        before = answers(process)
        strip(repo, KEPT, writer)
        assert process.ask("[repo.lock() and None, len(repo.changelog)]")[1] == KEPT
        assert answers(process) == before


def test_strip_within_the_last_page(repo: Path, writer: tuple[str, ...]) -> None:
    """A cut page does not kill: what was cut off reads as zeros."""
    with reader(repo) as process, reader(repo) as late:
        before = answers(process)
        strip(repo, COUNT - 10, writer)
        assert answers(process) == before
        assert answers(late) == before


@pytest.mark.sampled(1)
def test_rollback_of_an_unbundle(
    repo: Path, tmp_path: Path, writer: tuple[str, ...]
) -> None:
    bundle = make_bundle(repo, tmp_path)
    strip(repo, KEPT, writer)
    run(repo, "unbundle", "-q", str(bundle), config=writer)
    with reader(repo) as process:
        before = answers(process)
        run(repo, "rollback", "-q", config=(*writer, "ui.rollback=yes"))
        assert answers(process) == before
        process.ask("repo.invalidate()")
        assert process.ask("len(repo.changelog)") == KEPT


@pytest.mark.sampled(1)
def test_index_that_a_transaction_appended_to_and_took_back(
    repo: Path, tmp_path: Path, writer: tuple[str, ...]
) -> None:
    bundle = make_bundle(repo, tmp_path)
    strip(repo, KEPT, writer)
    with reader(repo) as early:
        said = answers(early, KEPT - 1)
        with (
            aborted_unbundle(repo, bundle, tmp_path, writer) as finish,
            Reader(repo, WITH) as process,
        ):
            assert process.ask("[opened(manifests), len(manifests)]") == [
                "transaction",
                COUNT,
            ]
            before = process.ask(f"manifests.index[{COUNT - 1}]")
            finish()
            assert process.ask(f"manifests.index[{COUNT - 1}]") == before
            process.ask("repo.invalidate()")
            assert process.ask("len(repo.manifestlog.getstorage(b''))") == KEPT
        assert answers(early, KEPT - 1) == said


@pytest.mark.sampled(1)
def test_inline_index_that_a_transaction_split_and_took_back(
    tmp_path: Path, made: Path, writer: tuple[str, ...]
) -> None:
    bundle = make_bundle(made, tmp_path, 31)
    repo = tmp_path / "inline"
    run(tmp_path, "clone", "-q", "-r", "30", str(made), "inline")
    with reader(repo, holding="read") as early:
        said = answers(early, 30)
        with (
            aborted_unbundle(repo, bundle, tmp_path, writer) as finish,
            Reader(repo, WITH) as process,
        ):
            before = process.ask(f"manifests.index[{COUNT - 1}]")
            finish()
            assert process.ask(f"manifests.index[{COUNT - 1}]") == before
        assert answers(early, 30) == said


def test_index_that_is_replaced(repo: Path) -> None:
    with reader(repo) as process:
        before = answers(process)
        path = repo / ".hg/store/00changelog.i"
        (path.parent / "new").write_bytes(path.read_bytes()[: KEPT * 64])
        (path.parent / "new").replace(path)
        assert answers(process) == before


@pytest.mark.sampled(1)
@pytest.mark.parametrize("config", [WITH, WITHOUT], ids=["with", "without"])
def test_snapshot_after_every_writer(repo: Path, config: tuple[str, ...]) -> None:
    """Whoever wrote, and whatever: the next reader sees the index as it is."""
    for rev in (COUNT - 5, COUNT - 700, KEPT):
        strip(repo, rev, config)
        with reader(repo) as process:
            count = process.ask("len(changes.index)")
            assert count == rev
            stored = (repo / ".hg/store/00changelog.i").read_bytes()
            entry = process.ask(f"changes.index.entry_binary({count - 1})")
            assert entry == stored[-64:]


def test_without_amalgam_readers_die(repo: Path) -> None:
    with Reader(repo, WITHOUT) as process:
        assert process.ask("len(changes.index)") == COUNT
        strip(repo, KEPT, ())
        with pytest.raises(DiedError) as caught:
            process.ask(f"changes.index[{COUNT - 1}]")
        assert caught.value.code == -signal.SIGBUS


def test_without_amalgam_readers_are_lied_to(repo: Path) -> None:
    with Reader(repo, WITHOUT) as process:
        assert process.ask("len(changes.index)") == COUNT
        strip(repo, COUNT - 10, ())
        assert process.ask(f"changes.index[{COUNT - 1}]")[7] == bytes(20)


@pytest.mark.parametrize("config", [WITH, ()], ids=["with", "without"])
def test_changelog_loaded_anew_under_a_context(
    repo: Path, config: tuple[str, ...]
) -> None:
    """A context knows its revision, and takes it to whatever changelog is there."""
    with Reader(repo, config) as process:
        assert process.ask(f"(kept := repo[{COUNT - 1}]).rev()") == COUNT - 1
        strip(repo, KEPT, ())
        assert process.ask("[len(repo.changelog), len(repo._bookmarks)]") == [COUNT, 0]
        assert process.ask("len(repo.changelog)") == KEPT
        assert process.ask("kept.user()") == "IndexError"


def make_bundle(repo: Path, directory: Path, start: int = KEPT) -> Path:
    """Bundle all changesets from ``start`` on."""
    bundle = directory / "rest.hg"
    run(repo, "bundle", "-q", "--base", str(start - 1), "-r", "tip", str(bundle))
    return bundle


@contextlib.contextmanager
def aborted_unbundle(
    repo: Path, bundle: Path, directory: Path, config: tuple[str, ...]
) -> Iterator[Callable[[], None]]:
    """Run an unbundle up to its end, where a hook waits; the function aborts it."""
    reached, go = directory / "reached", directory / "go"
    hook = f"touch {reached}; while [ ! -e {go} ]; do sleep 0.02; done; false"
    hooked = (*config, f"hooks.pretxnclose={hook}")
    process = subprocess.Popen(
        command("unbundle", "-q", str(bundle), config=hooked),
        cwd=repo,
        env=ENVIRONMENT,
        stderr=subprocess.DEVNULL,
    )

    def finish() -> None:
        go.touch()
        assert process.wait() != 0

    try:
        while not reached.exists():
            assert process.poll() is None
            time.sleep(0.02)
        yield finish
    finally:
        finish()


@pytest.mark.torture
def test_server_with_requests_in_flight(repo: Path, tmp_path: Path) -> None:
    bundle = make_bundle(repo, tmp_path)
    counts = cut_under_load(repo, bundle, KEPT, rounds=4, clients=3)
    assert counts["200"]
