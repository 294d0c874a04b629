"""The boundary itself: errors, panics, progress, Ctrl-C, threads."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mercurial import error
from testlib.environment import ENVIRONMENT, HG, ROOT
from testlib.exported import Exported
from testlib.hgserver import HgServer

from hgext3rd.amalgam import __version__
from hgext3rd.amalgam.commands import installation
from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.core._core import ffi, lib
from hgext3rd.amalgam.core.buffers import lent, lent_writable
from hgext3rd.amalgam.core.errors import Moved, Unsupported, call, check
from hgext3rd.amalgam.core.message import decode, encode
from hgext3rd.amalgam.core.operation import Operation
from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore.export.conversion import ExportConversion
from hgext3rd.amalgam.gitstore.oidmap import MapFiles
from hgext3rd.amalgam.gitstore.selection import Selection
from hgext3rd.amalgam.trust import Trust

#: Files of the repository whose export takes long enough to be reported.
FILES = 24

Convert = Callable[..., None]


@pytest.fixture(scope="module")
def slow(server: HgServer, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Make a repository of files that take long to compress, not exported."""
    store = Exported.init(tmp_path_factory.mktemp("slow") / "repo", server)
    for number in range(FILES):
        (store.root / f"file{number}").write_text(random.randbytes(1 << 20).hex())
    store.hg("commit", "-qAm", "many bytes", "-d", "0 0")
    return store


@pytest.fixture
def one_core() -> Iterator[None]:
    """Let all that is done last as long as where there is but one core."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture
def convert(slow: Exported, tmp_path: Path, one_core: None) -> Convert:
    """Return a function that converts it anew, with a ``makeprogress`` of the test."""
    repo = slow.open()
    tip = repo.changelog.node(0)

    def run(progress: Callable[..., Any] = lambda *_args, **_kwargs: Bar()) -> None:
        path = os.fsencode(tempfile.mkdtemp(dir=tmp_path))
        directory = Directory(path)
        maps = MapFiles(directory, Trust.of(repo.ui, path, path))
        ui = repo.ui.copy()
        ui.makeprogress = progress
        config = GitConfig.from_ui(repo.ui)
        conversion = ExportConversion.of(repo, config, directory, maps)
        conversion.run(ui, Selection(1, tip, {}), 0)

    return run


class Bar:
    """A progress bar that passes on the totals."""

    def __init__(
        self, told: Callable[[int | None], None] = lambda _total: None
    ) -> None:
        self.told = told

    def update(self, _done: int, total: int | None = None) -> None:
        self.told(total)

    def complete(self) -> None:
        pass


def told(message: bytes, path: bytes = b"", hint: bytes = b"") -> Any:
    """Return an ``amalgam_error`` as the core fills it."""
    problem = ffi.new("amalgam_error *")
    for name, text in {"message": message, "path": path, "hint": hint}.items():
        ffi.buffer(getattr(problem, name))[: len(text)] = text
        setattr(problem, f"{name}_len", len(text))
    return problem


def opened(directory: Path, segments: list[bytes]) -> Any:
    """Return an open oid map, without the class that wraps it."""
    out = ffi.new("amalgam_map **")
    fields: dict[str, Any] = {"segments": segments, "unmapped": []}
    with Directory(os.fsencode(directory)).opened() as fd:
        if segments:
            fields["directory"] = {"fd": fd, "path": os.fsencode(directory)}
        call(lib.amalgam_map_open, out, *lent(encode(fields)))
    return ffi.gc(out[0], lib.amalgam_map_free)


def test_core_is_of_this_version(ui: Any) -> None:
    assert installation.version_of_core(ui) == __version__


def test_no_hash_kernel_of_this_machine_is_refused(ui: Any) -> None:
    assert installation.refused_kernels(ui) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("INPUT", error.InputError),
        ("CORRUPT", error.StorageError),
        ("UNSUPPORTED", Unsupported),
        ("CANCELLED", error.CanceledError),
        ("MOVED", Moved),
    ],
)
def test_status_becomes_the_exception_of_its_class(
    name: str, expected: type[Any]
) -> None:
    status = getattr(lib, f"AMALGAM_STATUS_{name}")
    problem = told(b"revision 12 is cut", b"data/a.i", b"see 'hg verify'")
    with pytest.raises(expected) as caught:
        check(status, problem)
    assert caught.value.message == b"data/a.i: revision 12 is cut"
    assert caught.value.hint == b"see 'hg verify'"
    with pytest.raises(expected) as caught:
        check(status, told(b"as it is"))
    assert (caught.value.message, caught.value.hint) == (b"as it is", None)


def test_bug_asks_for_a_report() -> None:
    with pytest.raises(error.ProgrammingError, match="panic at") as caught:
        check(lib.AMALGAM_STATUS_BUG, told(b"panic at x.rs:1:2: no message"))
    assert b"please report it" in (caught.value.hint or b"")


def test_io_failure_keeps_errno_and_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        opened(tmp_path, [b"no-such.map"])
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == os.fsencode(tmp_path / "no-such.map")


def test_damage_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "damaged.map").write_bytes(b"x" * 100)
    with pytest.raises(error.StorageError) as caught:
        opened(tmp_path, [b"damaged.map"])
    assert caught.value.message.startswith(os.fsencode(tmp_path / "damaged.map: "))
    assert caught.value.hint == b"run 'hg git::export --rebuild'"


def test_null_handle_is_refused() -> None:
    with pytest.raises(error.ProgrammingError, match="no handle"):
        call(lib.amalgam_map_count, ffi.new("uint64_t *"), ffi.NULL, 0)


def test_failure_leaves_its_handle_usable(tmp_path: Path) -> None:
    oidmap = opened(tmp_path, [])
    count = ffi.new("uint64_t *", 7)
    with pytest.raises(error.ProgrammingError, match="unknown table 9"):
        call(lib.amalgam_map_count, count, oidmap, 9)
    call(lib.amalgam_map_count, count, oidmap, 0)
    assert count[0] == 0


def test_list_of_a_message_arrives_whole(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        opened(tmp_path, [b"a-name-of-a-segment.map", b""])
    assert caught.value.filename.endswith(b"/a-name-of-a-segment.map")


def test_short_buffer_is_refused_and_a_right_one_filled(tmp_path: Path) -> None:
    oidmap = opened(tmp_path, [])
    nodes = lent(b"n" * 40)
    with pytest.raises(error.ProgrammingError, match="one place per answer"):
        call(lib.amalgam_map_oids, *lent_writable(bytearray(39)), oidmap, 0, *nodes)
    filled = bytearray(b"x" * 40)
    call(lib.amalgam_map_oids, *lent_writable(filled), oidmap, 0, *nodes)
    assert filled == bytes(40)


def test_progress_is_drawn_with_its_total(ui: Any) -> None:
    ui.setconfig(b"ui", b"debug", b"yes")
    ui.setconfig(b"progress", b"debug", b"yes")
    ui.pushbuffer()

    def core(report: Any, handle: Any, _error: Any) -> int:
        reports = [(0, 3, 40), (1, 3, 40), (2, 1, 2), (3, 2, 0)]
        assert [report(handle, *told) for told in reports] == [0, 0, 0, 0]
        return lib.AMALGAM_STATUS_OK

    bars = {
        0: (b"counting", b"steps"),
        2: (b"writing", b"files"),
        3: (b"naming", b"refs"),
    }
    Operation(ui, bars).run(core)
    assert ui.popbuffer().splitlines() == [
        b"counting: 3/40 steps (7.50%)",
        b"writing: 1/2 files (50.00%)",
        b"naming: 2 refs",
    ]


MESSAGES = [
    {},
    {"a": 0, "b": -7, "most": (1 << 64) - 1},
    {"bytes": b"a\0\xff:e", "empty": b""},
    {"list": [b"x", 1, [], {}], "message": {"fd": 3, "path": b"p"}},
]


@pytest.mark.parametrize("message", MESSAGES)
def test_encoded_message_is_decoded(message: dict[str, Any]) -> None:
    assert decode(encode(message)) == message


def test_message_is_canonical_bencode() -> None:
    fields = {"b": True, "a": "x", "none": None, "c": (memoryview(b"yz"),)}
    assert encode(fields) == b"d1:a1:x1:bi1e1:cl2:yzee"


@pytest.mark.parametrize(
    "data", [b"", b"de ", b"d", b"i7e", b"d1:a9:xe", b"d1:ae", b"d1:ai7e", b"d1:aixee"]
)
def test_malformed_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)


DIALECT = {"dialect": b"cinnabar"}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, "field 'dialect' is missing"),
        ({"dialect": b"x"}, "unknown dialect 'x'"),
        (DIALECT, "field 'packs' is missing"),
        ({**DIALECT, "packs": 7}, "field 'packs' cannot be 7"),
        ({**DIALECT, "packs": {"fd": -1, "path": b""}}, "no descriptor of a directory"),
        (
            {**DIALECT, "packs": {"fd": 0, "path": b"", "mode": 7}},
            "unknown field 'packs.mode'",
        ),
    ],
)
def test_wrong_field_is_named(ui: Any, fields: dict[str, Any], found: str) -> None:
    with pytest.raises(error.ProgrammingError, match=found):
        Operation(ui, {}).job("export", fields)


def test_unknown_job_is_refused(ui: Any) -> None:
    with pytest.raises(error.ProgrammingError, match="unknown job 'exprot'"):
        Operation(ui, {}).job("exprot", {})


@pytest.mark.slow
def test_long_call_reports_its_progress(convert: Convert) -> None:
    totals: list[int | None] = []

    def progress(_topic: bytes, unit: bytes = b"", total: int | None = None) -> Any:
        return Bar(totals.append)

    start = time.monotonic()
    convert(progress)
    assert 1 <= len(totals) <= (time.monotonic() - start) / 0.1
    assert set(totals) <= {1, FILES, None}


@pytest.mark.slow
def test_report_that_raises_ends_the_call_with_its_exception(convert: Convert) -> None:
    def progress(*_args: Any, **_kwargs: Any) -> Any:
        raise LookupError("from the report")

    with pytest.raises(LookupError, match="from the report"):
        convert(progress)


@pytest.mark.slow
def test_other_threads_run_meanwhile(convert: Convert) -> None:
    ticks = 0
    ended = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.wait(0.01):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    convert()
    ended.set()
    thread.join()
    assert ticks >= 5


@pytest.mark.slow
def test_calls_run_side_by_side(convert: Convert) -> None:
    both = threading.Barrier(2, timeout=60)

    def progress(*_args: Any, **_kwargs: Any) -> Any:
        both.wait()  # each waits for a report of the other
        raise LookupError("both are under way")

    caught = []

    def run() -> None:
        try:
            convert(progress)
        except LookupError as exc:
            caught.append(exc)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caught) == 2


@pytest.mark.slow
def test_ctrl_c_ends_a_long_call_before_it_is_done(
    slow: Exported, one_core: None
) -> None:
    command = [str(HG), "--config", "extensions.amalgam=", "git::export"]
    with subprocess.Popen(
        command,
        cwd=slow.root,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # what a shell starts in the background ignores it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout
        while not any(slow.packs_dir.glob("*")):  # the core has begun a pack
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b"interrupted!\n"
        assert process.wait() == 255
    assert not list(slow.packs_dir.glob("*.idx"))


def test_every_function_of_the_header_is_called_and_no_other() -> None:
    header = (ROOT / "rust/capi/include/amalgam.h").read_text()
    declared = re.findall(r"^\w[\w ]*[ *](amalgam_\w+)\(", header, re.MULTILINE)
    sources = (ROOT / "hgext3rd/amalgam").rglob("*.py")
    texts = "".join(path.read_text() for path in sources)
    assert "amalgam_job_run" in declared
    called = set(re.findall(r"\blib\.(amalgam_\w+)", texts)) - {"amalgam_report"}
    assert called == {*declared}


def test_every_entry_point_catches_panics() -> None:
    for path in (ROOT / "rust/capi/src").rglob("*.rs"):
        functions = path.read_text().split('extern "C" fn ')[1:]
        for function in functions:
            name, body = function.split("(", 1)
            if not name.startswith("amalgam_"):
                continue
            body = body.split("\n}\n", 1)[0]
            assert re.search(r"\bentry\(|handle::free\(", body), name
