"""How much memory a bundle of Mercurial asks of those who read it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from mercurial import error
from testlib.environment import hg
from testlib.small import repository

from hgext3rd.amalgam.clonebundles.formats import window_bytes

#: A frame of a single segment, with an id of a dictionary, and a size in 8 bytes.
LONGEST = b"\x28\xb5\x2f\xfd\xe3\0\0\0\1" + (1 << 40).to_bytes(8, "little")


def header(parameters: bytes) -> bytes:
    return b"HG20" + len(parameters).to_bytes(4, "big") + parameters


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path: Path = tmp_path_factory.mktemp("window")
    repo = repository(path / "repo")
    hg(repo, "bundle", "-qa", "-t", "zstd-v2", "../bundle")
    return (path / "bundle").read_bytes()


def test_bundle_that_is_cut_is_one_error(bundle: bytes) -> None:
    whole = window_bytes(io.BytesIO(bundle))
    assert whole > 0
    for content in (bundle, header(b"Compression=ZS") + LONGEST):
        cut = 0
        expected = window_bytes(io.BytesIO(content))
        for length in range(4, len(content)):
            try:
                found = window_bytes(io.BytesIO(content[:length]))
            except error.StorageError:
                cut += 1
            else:
                assert found == expected
        assert cut > len(header(b"Compression=ZS"))


def test_size_behind_the_longest_header_is_read_whole() -> None:
    content = header(b"Compression=ZS") + LONGEST
    assert window_bytes(io.BytesIO(content)) == 1 << 40


def test_parameters_of_a_negative_length_are_the_same_error() -> None:
    with pytest.raises(error.StorageError, match="parameters of -1 bytes"):
        window_bytes(io.BytesIO(b"HG20\xff\xff\xff\xff"))


@pytest.mark.parametrize("content", [b"", b"HG1", b"HG10UN", header(b"") + b"rest"])
def test_what_is_not_compressed_so_asks_for_nothing(content: bytes) -> None:
    assert window_bytes(io.BytesIO(content)) == 0
