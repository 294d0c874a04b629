"""The boundary itself: errors, panics, progress, Ctrl-C, threads."""

from __future__ import annotations

import errno
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from mercurial import error, ui as uimod
from testlib.environment import ENVIRONMENT, ROOT

from hgext3rd.amalgam import metadata
from hgext3rd.amalgam.native import kernels
from hgext3rd.amalgam.native._core import ffi, lib
from hgext3rd.amalgam.native.buffers import lent_list, lent_writable
from hgext3rd.amalgam.native.errors import Unsupported, call
from hgext3rd.amalgam.native.operation import Operation

COUNTING = {0: (b"counting", b"steps")}
PANIC = "panic at capi/src/selftest.rs:"


@pytest.fixture
def ui() -> Any:
    """An hg ui that prints each step of its progress bars."""
    ui = uimod.ui.load()
    ui.setconfig(b"ui", b"debug", b"yes")
    ui.setconfig(b"progress", b"debug", b"yes")
    return ui


def count(ui: Any, steps: int, step_millis: int, fail_mode: int = 0) -> None:
    operation = Operation(ui, COUNTING)
    operation.run(lib.amalgam_selftest_count, steps, step_millis, fail_mode)


def test_core_is_of_this_version() -> None:
    version = lib.amalgam_version()
    assert bytes(ffi.buffer(version.data, version.len)) == metadata.__version__


def test_no_hash_kernel_of_this_machine_is_refused() -> None:
    assert kernels.refused() == []


def test_refused_hash_kernels_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = ffi.new("uint8_t []", b"avx-512,sha-ni")

    def answer(_func: object, names: Any) -> None:
        names.data, names.len = joined, len(joined) - 1

    monkeypatch.setattr(kernels, "call", answer)
    assert kernels.refused() == [b"avx-512", b"sha-ni"]


@pytest.mark.parametrize(
    ("status", "expected", "message", "hint"),
    [
        (1, error.InputError, b"selftest was asked for an input failure", b"ask for"),
        (2, error.StorageError, b"data/no-such-file.i: revision 12 is cut", b"hg veri"),
        (3, Unsupported, b"selftest does not do this", None),
        (6, error.CanceledError, b"stopped on request", None),
        (99, error.InputError, b"unknown fail mode 99", None),
    ],
)
def test_status_becomes_the_exception_of_its_class(
    ui: Any, status: int, expected: type[Any], message: bytes, hint: bytes | None
) -> None:
    with pytest.raises(expected) as caught:
        count(ui, 1, 0, status)
    assert caught.value.message == message
    assert (hint or b"") in (caught.value.hint or b"")


def test_io_failure_keeps_errno_and_file(ui: Any) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        count(ui, 1, 0, lib.AMALGAM_STATUS_IO)
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == b"data/no-such-file.i"


def test_panic_in_a_worker_becomes_a_programming_error(
    ui: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error.ProgrammingError, match=PANIC) as caught:
        count(ui, 1, 0, lib.AMALGAM_STATUS_BUG)
    assert "selftest was asked to panic" in str(caught.value)
    assert capfd.readouterr().err == ""


def test_panic_poisons_its_handle_only(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = Sum(), Sum()
    assert first.add(2) == 2
    assert first.add(3) == 5
    with pytest.raises(error.InputError):
        first.add(2**64 - 1)
    assert first.add(0) == 5
    with pytest.raises(error.ProgrammingError, match=PANIC):
        first.add(1, lib.AMALGAM_STATUS_BUG)
    with pytest.raises(error.ProgrammingError, match="an earlier call on it panicked"):
        first.add(1)
    assert second.add(1) == 1
    assert capfd.readouterr().err == ""


def test_null_handle_is_refused() -> None:
    with pytest.raises(error.ProgrammingError, match="no handle"):
        call(lib.amalgam_selftest_add, ffi.new("uint64_t *"), ffi.NULL, 1, 0)


@pytest.mark.parametrize("parts", [[], [b""], [b"ab", b"", b"c\0d"], [bytearray(b"x")]])
def test_lent_bytes_arrive_whole(parts: list[bytes]) -> None:
    assert join(parts, room=100) == b"".join(parts)


def test_short_buffer_is_an_input_error() -> None:
    with pytest.raises(error.InputError, match="buffer of 2 bytes is too short for 3"):
        join([b"abc"], room=2)


def test_progress_is_reported_with_its_total(ui: Any) -> None:
    ui.pushbuffer()
    start = time.monotonic()
    count(ui, 40, 10)
    taken = time.monotonic() - start
    lines = ui.popbuffer().splitlines()
    assert 2 <= len(lines) <= taken / 0.1  # ten times a second at most
    for line in lines:
        assert re.fullmatch(rb"counting: \d+/40 steps \(\d+\.\d\d%\)", line)


def test_call_can_be_cancelled_from_another_thread(ui: Any) -> None:
    operation = Operation(ui, {})
    threading.Timer(0.2, operation.cancel).start()
    start = time.monotonic()
    with pytest.raises(error.CanceledError):
        operation.run(lib.amalgam_selftest_count, 500, 10, 0)
    assert time.monotonic() - start < 2


def test_report_that_raises_ends_the_call_with_its_exception(ui: Any) -> None:
    class Broken(Operation):
        def report(self, phase: int, done: int, total: int) -> int:
            raise LookupError("from the report")

    start = time.monotonic()
    with pytest.raises(LookupError, match="from the report"):
        Broken(ui, {}).run(lib.amalgam_selftest_count, 500, 10, 0)
    assert time.monotonic() - start < 2


def test_other_threads_run_meanwhile(ui: Any) -> None:
    ticks = 0
    ended = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.wait(0.01):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    count(ui, 1, 500)
    ended.set()
    thread.join()
    assert ticks >= 10


def test_calls_run_side_by_side(ui: Any) -> None:
    threads = [threading.Thread(target=count, args=(ui, 10, 50)) for _ in range(4)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - start < 4 * 0.5


INTERRUPTED = """
from mercurial import ui
from hgext3rd.amalgam.native._core import lib
from hgext3rd.amalgam.native.operation import Operation

print("started", flush=True)
try:
    Operation(ui.ui.load(), {}).run(lib.amalgam_selftest_count, 500, 10, 0)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_long_call_soon(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        # what a shell starts in the background ignores it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        time.sleep(0.3)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait() == 0
        assert time.monotonic() - start < 2


def test_stub_has_every_function_of_the_header() -> None:
    header = (ROOT / "rust/capi/include/amalgam.h").read_text()
    stub = (ROOT / "hgext3rd/amalgam/native/_core.pyi").read_text()
    declared = re.findall(r"^\w[\w ]*[ *](amalgam_\w+)\(", header, re.MULTILINE)
    assert "amalgam_selftest_count" in declared
    assert re.findall(r"def (amalgam_\w+)\(", stub) == declared


def test_every_entry_point_catches_panics() -> None:
    for path in (ROOT / "rust/capi/src").glob("*.rs"):
        functions = path.read_text().split('extern "C" fn ')[1:]
        for function in functions:
            name, body = function.split("(", 1)
            if not name.startswith("amalgam_") or name == "amalgam_version":
                continue
            body = body.split("\n}\n", 1)[0]
            assert re.search(r"\bentry\(|handle::free\(", body), name


class Sum:
    """What a handle looks like in Python."""

    def __init__(self) -> None:
        out = ffi.new("amalgam_selftest **")
        call(lib.amalgam_selftest_new, out)
        self._handle = ffi.gc(out[0], lib.amalgam_selftest_free)

    def add(self, amount: int, fail_mode: int = 0) -> int:
        total = ffi.new("uint64_t *")
        call(lib.amalgam_selftest_add, total, self._handle, amount, fail_mode)
        return int(total[0])


def join(parts: list[bytes], room: int) -> bytes:
    buffer = bytearray(room)
    written = ffi.new("size_t *")
    target = lent_writable(buffer)
    call(lib.amalgam_selftest_join, *target, written, *lent_list(parts))
    return bytes(buffer[: written[0]])
