"""Full disks of many sizes."""

from __future__ import annotations

from collections import Counter

from testlib.interruption import PAGE_BYTES, Interrupted, SmallDisk


def limited_files(case: Interrupted, count: int) -> Counter[str]:
    """Export with files that cannot grow beyond ``count`` sizes."""
    case.clear()
    case.export()
    sizes = case.sizes()
    limits = {sizes[-1] * part // count for part in range(count)}
    limits |= {size - 1 for size in sizes if size}
    counts: Counter[str] = Counter()
    for limit in sorted(limits):
        case.clear()
        process = case.start(file_bytes=limit)
        said = case.check_refusal(process)
        assert not case.debris(), f"{limit} bytes: {case.debris()}"
        case.check_valid()
        case.check_next()
        counts[said.split(b":")[1].strip().decode()] += 1
    assert counts["File too large"], counts
    return counts


def small_disks(case: Interrupted, count: int) -> Counter[str]:
    """Export to ``count`` disks that are too small, or just large enough."""
    case.clear()
    case.export()
    needed = sum(-(-size // PAGE_BYTES) for size in case.sizes())
    step = max(needed // count, 1)
    near = range(needed - count // 2, needed + count // 2)
    ends = []
    for pages in sorted({*range(1, needed, step), *near}):
        case.clear()
        with SmallDisk(case.amalgam, pages) as disk:
            process = case.start()
            _out, err = process.communicate()
            if process.returncode:
                assert process.returncode == 50, err  # detailed
                said, hint = err.splitlines()
                assert said.startswith(b"abort: No space left on device"), err
                assert hint.startswith(b"(see 'hg git::export --estimate'; "), err
                assert not case.debris(), f"{pages} pages: {case.debris()}, {err!r}"
                case.check_valid()
            ends.append("refused" if process.returncode else "exported")
            disk.grow()
            case.check_next()
    # from some size on, there is room enough
    assert ends == sorted(ends, reverse=True)
    return Counter(ends)
