"""Compressed bundles: ordinary streams, whatever makes them faster and smaller."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from mercurial import bundle2, zstd
from mercurial.utils import compression as stock
from testlib.hgserver import HgServer

from hgext3rd.amalgam.changegroup import compression
from hgext3rd.amalgam.changegroup.compression import Settings
from hgext3rd.amalgam.clonebundles.formats import window_bytes

SMALL = 100 << 10
WINDOW = Settings(6, 2, 27)


def chunks(count: int = 40) -> Iterator[bytes]:
    """Yield text that repeats after longer than deflate looks back, in odd sizes."""
    for number in range(count):
        lines = range(number % 7 * 1000, number % 7 * 1000 + 2000)
        yield b"".join(b"line %d of a file\n" % line for line in lines)
        yield b""
        yield b"%d" % number


CONTENT = b"".join(chunks())


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads compress what is small."""
    monkeypatch.setattr(compression, "_SMALL_BYTES", SMALL)
    monkeypatch.setattr(compression, "_BLOCK_BYTES", SMALL)


def compressed(kind: Any, settings: Settings) -> bytes:
    return b"".join(kind(chunks(), settings))


def decompressed(engine: bytes, data: bytes) -> bytes:
    """Return what Mercurial reads, without anything of ours."""
    reader = stock.compengines.forbundletype(engine).decompressorreader(BytesIO(data))
    content = bytes(reader.read(len(CONTENT) + 1))
    assert reader.read(1) == b""
    return content


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_what_threads_compress_is_read_by_mercurial(threads: int) -> None:
    settings = WINDOW._replace(threads=threads)
    assert decompressed(b"ZS", compressed(compression.zstd, settings)) == CONTENT
    settings = settings._replace(level=None)
    data = compressed(compression.deflate, settings)
    assert decompressed(b"GZ", data) == CONTENT
    assert zlib.decompress(data) == CONTENT  # and its checksum is right


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("level", [1, 5, 9, 13, 22])
def test_streams_of_every_kind_of_level_are_read(level: int) -> None:
    data = compressed(compression.zstd, WINDOW._replace(level=level))
    assert decompressed(b"ZS", data) == CONTENT


def test_parameters_are_no_weaker_than_those_of_zstd() -> None:
    of_level = zstd.ZstdCompressionParameters.from_level
    for level in range(1, 20):
        usual = of_level(level)
        ours = compression._parameters(zstd, level, WINDOW)
        assert ours.strategy == usual.strategy
        for name in ("hash_log", "search_log", "chain_log"):
            assert getattr(ours, name) >= getattr(usual, name)
        # a tree finds what is shorter
        longer = ours.min_match > usual.min_match
        assert longer == (level in compression._LEVELS_OF_ROWS)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kind", [compression.zstd, compression.deflate])
def test_number_of_threads_does_not_change_the_bytes(kind: Any) -> None:
    one, several = (
        compressed(kind, WINDOW._replace(threads=threads)) for threads in (1, 4)
    )
    assert one == several


@pytest.mark.parametrize("engine", [b"ZS", b"GZ"])
def test_nothing_is_a_stream_too(engine: bytes) -> None:
    kind = {b"ZS": compression.zstd, b"GZ": compression.deflate}[engine]
    for content in ([], [b""]):
        data = b"".join(kind(content, WINDOW))
        reader = stock.compengines.forbundletype(engine)
        assert reader.decompressorreader(BytesIO(data)).read(1) == b""


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("log", [20, 23, 27])
def test_window_is_the_one_configured(log: int) -> None:
    data = compressed(compression.zstd, WINDOW._replace(window_log=log))
    assert zstd.get_frame_parameters(data).window_size == 1 << log
    bundle = b"HG20\0\0\0\x0eCompression=ZS" + data
    assert window_bytes(BytesIO(bundle)) == 1 << log


def test_small_bundle_asks_for_no_more_memory_than_its_size() -> None:
    data = compressed(compression.zstd, WINDOW)
    assert len(CONTENT) < compression._SMALL_BYTES
    assert zstd.get_frame_parameters(data).window_size == len(CONTENT)


def test_small_bundle_of_gzip_is_what_mercurial_writes() -> None:
    few = [*chunks(10)]
    settings = WINDOW._replace(level=None)
    sink = zlib.compressobj()
    expected = b"".join(map(sink.compress, few)) + sink.flush()
    assert b"".join(compression.deflate(few, settings)) == expected


@pytest.mark.usefixtures("tiny")
def test_deflate_loses_little_by_its_blocks() -> None:
    ours = compressed(compression.deflate, WINDOW._replace(level=None))
    assert len(ours) < 1.01 * len(zlib.compress(CONTENT))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kind", [compression.zstd, compression.deflate])
@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError])
def test_failure_ends_the_threads(kind: Any, problem: type[BaseException]) -> None:
    before = threading.active_count()

    def failing() -> Iterator[bytes]:
        yield from chunks()
        raise problem

    with pytest.raises(problem):
        for _data in kind(failing(), WINDOW):
            pass
    assert threading.active_count() == before
    stream = kind(chunks(), WINDOW)
    next(stream)
    stream.close()  # a reader that goes away
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, Settings(4, 3, 21)),
        ({b"level": 19}, Settings(19, 3, 21)),
        ({b"threads": 0, b"level": 1}, Settings(1, 0, 21)),
    ],
)
def test_mercurials_own_items_come_first(
    ui: Any, options: dict[bytes, int], settings: Settings
) -> None:
    for item, value in ((b"level", b"4"), (b"threads", b"3"), (b"window", b"3 MB")):
        ui.setconfig(b"amalgam", b"bundles." + item, value)
    assert Settings.of(ui, options, is_zstd=True) == settings
    level = options.get(b"level")
    assert Settings.of(ui, options, is_zstd=False) == settings._replace(level=level)


def test_threads_are_as_many_as_cores_and_few(
    ui: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cores, threads in ((1, 1), (3, 3), (64, compression._MOST_THREADS)):
        monkeypatch.setattr(compression, "usable_cores", lambda n=cores: n)
        assert Settings.of(ui, {}, is_zstd=True).threads == threads


@pytest.mark.parametrize("spec", ["zstd-v2", "gzip-v2", "none-v2", "gzip-v1"])
def test_commands_write_what_they_are_told(
    tmp_path: Path, server: HgServer, spec: str
) -> None:
    repo, bundle, other = (tmp_path / name for name in ("repo", "bundle", "other"))
    for place in (repo, other):
        server.hg(tmp_path, "init", str(place))
    for number in range(3):
        (repo / "file").write_text(f"{number}\n" * 1000)
        server.hg(repo, "commit", "-qAm", f"change {number}")
    server.hg(repo, "bundle", "-q", "--all", "-t", spec, str(bundle))
    found = server.hg(repo, "debugbundle", "--spec", str(bundle)).decode()
    assert found.rstrip().partition(";")[0] == spec
    server.hg(other, "unbundle", "-q", str(bundle))
    log = ("log", "-T", "{node}\n")
    assert server.hg(other, *log) == server.hg(repo, *log)


def test_level_of_a_command_is_obeyed(tmp_path: Path, server: HgServer) -> None:
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))
    (repo / "file").write_bytes(CONTENT)
    server.hg(repo, "commit", "-qAm", "text")
    sizes: dict[tuple[str, str], int] = {}
    for item in ("amalgam.bundles.level=1", "amalgam.bundles.level=19"):
        for stocks in ("", "experimental.bundlecomplevel=1"):
            path = tmp_path / f"{len(sizes)}"
            configs = [f"--config={value}" for value in (item, stocks) if value]
            server.hg(repo, "bundle", "-qat", "zstd-v2", str(path), *configs)
            sizes[item[-2:], stocks[-1:]] = path.stat().st_size
    assert sizes["=1", ""] == sizes["=1", "1"] == sizes["19", "1"] > sizes["19", ""]


@pytest.mark.parametrize("name", [b"zstd", b"zlib"])
def test_wire_is_compressed_as_ever(ui: Any, name: bytes) -> None:
    bundle2.bundle20(ui).setcompression(b"ZS")  # ours takes part from here on
    engine = stock.compengines[name]
    plain = {
        b"zstd": zstd.ZstdCompressor(level=1).compressobj(),
        b"zlib": zlib.compressobj(1),
    }[name]
    expected = b"".join(map(plain.compress, chunks())) + plain.flush()
    assert b"".join(engine.compressstream(chunks(), {b"level": 1})) == expected
