"""Which reason counts, and how it is told."""

from __future__ import annotations

import pytest

from hgext3rd.amalgam.index.decision import Decision, Reason, reason_for


@pytest.mark.parametrize(
    ("threshold", "size", "inline", "pending", "safe", "expected"),
    [
        (100, None, False, False, True, Reason.MISSING),
        (None, None, False, False, True, Reason.MISSING),
        (0, 0, False, True, True, Reason.EMPTY),
        (None, 0, False, False, True, Reason.EMPTY),
        (0, 64, True, True, True, Reason.INLINE),
        (None, 64, True, False, True, Reason.INLINE),
        (None, 64, False, True, True, Reason.SWITCHED_OFF),
        (65, 64, False, True, True, Reason.BELOW_THRESHOLD),
        (64, 64, False, True, True, Reason.PENDING),
        (64, 64, False, False, True, Reason.LARGE_ENOUGH),
        (0, 1, False, False, True, Reason.LARGE_ENOUGH),
        (64, 64, False, False, False, Reason.UNSAFE_FILE_SYSTEM),
    ],
)
def test_reason(
    threshold: int | None,
    size: int | None,
    inline: bool,
    pending: bool,
    safe: bool,
    expected: Reason,
) -> None:
    assert reason_for(threshold, size, inline, pending, lambda: safe) is expected


@pytest.mark.parametrize(("threshold", "size"), [(None, 64), (65, 64), (0, 0)])
def test_file_system_is_asked_only_if_it_matters(
    threshold: int | None, size: int
) -> None:
    def is_mmap_safe() -> bool:
        raise AssertionError("asked")

    reason_for(threshold, size, False, False, is_mmap_safe)


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_is_told_in_its_own_words(reason: Reason) -> None:
    told = {
        other: Decision(
            name=b"00changelog",
            path=b"/repo/.hg/store/00changelog.i",
            size_bytes=64,
            reason=other,
            threshold_bytes=None if other is Reason.SWITCHED_OFF else 64,
            item=b"experimental.mmapindex",
        )
        for other in Reason
    }
    words = told[reason].explain()
    assert [other for other in Reason if told[other].explain() == words] == [reason]
    assert told[reason].mapped == words.startswith(b"mapped: ")
