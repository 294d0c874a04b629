"""From which size on indexes are mapped, by what the configuration says."""

from __future__ import annotations

from typing import Any

import pytest

from hgext3rd.amalgam.config import IndexConfig

OURS = b"experimental.mmapindex"
OUR_THRESHOLD = b"experimental.mmapindexthreshold"
STOCK = b"storage.revlog.mmap.index"
STOCK_THRESHOLD = b"storage.revlog.mmap.index:size-threshold"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("wanted", "threshold", "stock_threshold", "expected"),
    [
        (None, None, None, (None, STOCK)),
        (None, None, 77, (77, STOCK_THRESHOLD)),
        (None, b"5", None, (5, OUR_THRESHOLD)),
        (None, b"5", 77, (5, OUR_THRESHOLD)),
        (None, b"0", 77, (0, OUR_THRESHOLD)),
        (b"yes", None, None, (MIB, STOCK_THRESHOLD)),
        (b"yes", None, 8 * MIB, (MIB, STOCK_THRESHOLD)),
        (b"yes", b"2 MB", None, (2 * MIB, OUR_THRESHOLD)),
        (b"yes", b"0", MIB, (0, OUR_THRESHOLD)),
        (b"no", None, MIB, (None, OURS)),
        (b"no", b"0", MIB, (None, OURS)),
    ],
)
def test_threshold_and_the_item_that_decides(
    ui: Any,
    wanted: bytes | None,
    threshold: bytes | None,
    stock_threshold: int | None,
    expected: tuple[int | None, bytes],
) -> None:
    if wanted is not None:
        ui.setconfig(b"experimental", b"mmapindex", wanted)
    if threshold is not None:
        ui.setconfig(b"experimental", b"mmapindexthreshold", threshold)
    assert IndexConfig.from_ui(ui, stock_threshold) == IndexConfig(*expected)


def test_threshold_of_mercurial_holds_for_yes(ui: Any) -> None:
    ui.setconfig(b"experimental", b"mmapindex", b"yes")
    ui.setconfig(b"storage", b"revlog.mmap.index:size-threshold", b"9")
    assert IndexConfig.from_ui(ui, None) == IndexConfig(9, STOCK_THRESHOLD)
