"""The smallest history that still shows a difference.

Leaves out steps, then simplifies those that are left. Each trial converts a repository
on both sides, so trials are counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from testlib import oddstore

Step = TypeVar("Step")

_TRIALS = 200


def shrink(
    steps: Sequence[oddstore.Step],
    is_bad: Callable[[list[oddstore.Step]], bool],
    trials: int = _TRIALS,
) -> list[oddstore.Step]:
    """Return a part of ``steps`` that ``is_bad``, which ``steps`` is; in few trials."""
    return smallest(
        steps,
        is_bad,
        _simpler,
        lambda steps, first, end: steps[:first] + steps[end:],
        trials,
    )


def smallest(
    steps: Sequence[Step],
    is_bad: Callable[[list[Step]], bool],
    simpler: Callable[[Step], Iterable[Step]],
    without: Callable[[list[Step], int, int], list[Step]],
    trials: int,
) -> list[Step]:
    """Return fewer and simpler ``steps`` that ``is_bad``, in so many trials.

    ``without`` leaves out the steps from one place to another, ``simpler`` returns what
    a step is with one thing less.
    """
    best = list(steps)
    left = trials

    def improves(candidate: list[Step]) -> bool:
        nonlocal left, best
        if left <= 0:
            return False
        left -= 1
        if not is_bad(candidate):
            return False
        best = candidate
        return True

    size = len(best) // 2
    while size:
        at = 0
        while at < len(best):
            if not improves(without(best, at, at + size)):
                at += size
        size //= 2
    simplified = True
    while simplified and left > 0:
        simplified = False
        for at in range(len(best)):
            for step in simpler(best[at]):
                if improves([*best[:at], step, *best[at + 1 :]]):
                    simplified = True
                    break
    return best


def _simpler(step: oddstore.Step) -> Iterator[oddstore.Step]:
    """``step`` with one thing less, one after the other."""
    if len(step.edits) > 1:
        yield dataclasses.replace(step, edits=step.edits[: len(step.edits) // 2])
        yield dataclasses.replace(step, edits=step.edits[len(step.edits) // 2 :])
    for at in range(len(step.edits)):
        edits = step.edits[:at] + step.edits[at + 1 :]
        yield dataclasses.replace(step, edits=edits)
    plain = oddstore.Step(step.key)
    for field in dataclasses.fields(oddstore.Step):
        value = getattr(plain, field.name)
        if field.name != "edits" and getattr(step, field.name) != value:
            yield dataclasses.replace(step, **{field.name: value})
    if step.extra is not None and b"\0" in step.extra:
        items = step.extra.split(b"\0")
        for at in range(len(items)):
            extra = b"\0".join(items[:at] + items[at + 1 :])
            yield dataclasses.replace(step, extra=extra)
