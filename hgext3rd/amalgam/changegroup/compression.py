"""Compression of Mercurial bundles: on all cores, with a large window.

Writes ordinary zstd and deflate streams, for every client. Streams of the wire protocol
keep Mercurial's compression: their bytes must leave at once. Reasons and figures are in
``docs/decisions/bundle-compression.rst``.
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from concurrent import futures  # loaded where it is used: in no other bundle
from itertools import chain
from typing import TYPE_CHECKING, Any

from mercurial.utils import compression

from ..background import end_quickly
from ..config import CompressionConfig
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from mercurial.interfaces.types import UiT

# so a host of many cores stays below 300 MB
_MOST_THREADS = 4
# size of the piece that one thread compresses
_JOB_BYTES = 8 << 20
# a shorter stream is one job, and has no use for a long window
_SMALL_BYTES = _JOB_BYTES
# Lower levels are for speed alone, higher ones search in trees. What comes again are
# lines, and nodes of 20 bytes or 40 digits: shorter matches than this gain nothing. A
# small table with long rows stays in the cache of the processor.
_LEVELS_OF_ROWS = range(5, 13)
_ROWS = {"min_match": 6, "search_log": 5, "hash_log": 19}
# from this level on, a job is longer and knows all of the one before it
_LEVEL_OF_OVERLAP, _LONG_JOB_BYTES = 9, 16 << 20
# the overlap is limited by the chain log
_OVERLAP = {"search_log": 5, "hash_log": 22, "overlap_log": 9, "chain_log": 23}
_BLOCK_BYTES = 1 << 20
# how far back deflate can refer
_DEFLATE_WINDOW_BYTES = 32 << 10
_ZSTD, _DEFLATE = b"ZS", b"GZ"


class Settings(Record):
    """How one bundle is compressed."""

    level: int | None
    """Of the format; ``None``: the format's own default."""
    threads: int
    window_log: int
    """The window of zstd is two to the power of this."""

    @classmethod
    def of(cls, ui: UiT, asked: Mapping[bytes, int], *, is_zstd: bool) -> Settings:
        """Return the configured choice; Mercurial's own items come first."""
        config = CompressionConfig.from_ui(ui)
        default = config.level if is_zstd else None
        threads = config.threads or min(usable_cores(), _MOST_THREADS)
        return cls(
            asked.get(b"level", default),
            asked.get(b"threads", threads),
            config.window_bytes.bit_length() - 1,
        )


class _Engine:
    """Compression engine of one bundle, in the place of Mercurial's."""

    def __init__(self, settings: Settings, *, is_zstd: bool) -> None:
        self._settings = settings
        self._compress = zstd if is_zstd else deflate

    def compressstream(self, it: Iterable[bytes], _opts: Any = None) -> Iterator[bytes]:
        """Compress the content of the bundle."""
        return self._compress(it, self._settings)


def choose(
    orig: Callable[..., None],
    bundler: Any,
    kind: bytes | None,
    options: Mapping[bytes, Any] | None = None,
) -> None:
    """Stand for ``bundle20.setcompression``: all that Mercurial writes to files."""
    orig(bundler, kind, options)
    if kind in (_ZSTD, _DEFLATE):
        end_quickly()
        settings = Settings.of(bundler.ui, options or {}, is_zstd=kind == _ZSTD)
        bundler._compengine = _Engine(settings, is_zstd=kind == _ZSTD)


def usable_cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def zstd(chunks: Iterable[bytes], settings: Settings) -> Iterator[bytes]:
    """Compress to one frame of zstd, the same for any number of threads."""
    module = compression.compengines[b"zstd"]._module
    level = 3 if settings.level is None else settings.level
    rest, start, size = iter(chunks), [], 0
    for chunk in rest:
        start.append(chunk)
        size += len(chunk)
        if size >= _SMALL_BYTES:
            break
    else:
        yield module.ZstdCompressor(level=level).compress(b"".join(start))
        return
    parameters = _parameters(module, level, settings)
    sink = module.ZstdCompressor(compression_params=parameters).compressobj()
    for chunk in chain(start, rest):
        data = sink.compress(chunk)
        if data:
            yield data
    yield sink.flush()


def _parameters(module: Any, level: int, settings: Settings) -> Any:
    of_level = module.ZstdCompressionParameters.from_level
    usual, least, job_bytes = of_level(level), dict[str, int](), _JOB_BYTES
    if level in _LEVELS_OF_ROWS:
        least |= _ROWS
    if level >= _LEVEL_OF_OVERLAP:
        least |= _OVERLAP
        job_bytes = _LONG_JOB_BYTES
    return of_level(
        level,
        window_log=settings.window_log,
        enable_ldm=True,
        job_size=job_bytes,
        threads=max(settings.threads, 1),
        **{name: max(getattr(usual, name), value) for name, value in least.items()},
    )


def deflate(chunks: Iterable[bytes], settings: Settings) -> Iterator[bytes]:
    """Compress to one stream of zlib, in blocks that threads compress.

    Each block may refer to the end of the one before it, so little compression is lost.
    A single block equals Mercurial's output.
    """
    level = -1 if settings.level is None else settings.level
    blocks = _blocks(chunks)
    first, second = next(blocks, b""), next(blocks, None)
    if second is None:
        yield zlib.compress(first, level)
        return
    yield zlib.compressobj(level).flush()[:2]
    checksum, before = zlib.adler32(b""), b""
    pending: deque[Future[bytes]] = deque()
    pool = futures.ThreadPoolExecutor(max(settings.threads, 1))
    try:
        for block in chain((first, second), blocks):
            pending.append(pool.submit(_deflate_block, level, before, block))
            checksum = zlib.adler32(block, checksum)
            before = block[-_DEFLATE_WINDOW_BYTES:]
            if len(pending) > settings.threads:
                yield pending.popleft().result()
        for future in pending:
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
    end = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
    yield end + checksum.to_bytes(4, "big")


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        held.append(chunk)
        size += len(chunk)
        if size >= _BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _deflate_block(level: int, before: bytes, block: bytes) -> bytes:
    raw = (level, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    dictionary = (zlib.Z_DEFAULT_STRATEGY, before) if before else ()
    sink = zlib.compressobj(*raw, *dictionary)
    return sink.compress(block) + sink.flush(zlib.Z_SYNC_FLUSH)
