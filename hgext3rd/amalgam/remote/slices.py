"""Slices of a large push, for hosts with limits of commits or bytes.

Each slice but the last moves some refs to ancestors of their commits. An interrupted
push goes on with the next slice. Knows a graph of commits, and nothing of git.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..gitstore.git.refs import TAGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


def sliced(
    commits: Iterable[Sequence[bytes]],
    targets: Mapping[bytes, bytes],
    most: int,
    peeled: Mapping[bytes, bytes],
) -> Iterator[dict[bytes, bytes]]:
    """Yield refs to write together, in order: ref to commit.

    ``commits``: a commit and its parents, parents first, in the order of topology.
    ``targets``: the oid of each ref in the end; ``peeled``: commits of tag objects. At
    most ``most`` commits are new in a slice, unless a merge has more on its other side,
    or only a tag has them: a tag gets no other commit than its own, since hosts protect
    tags and start builds.
    """
    order = [*commits]
    at = {commit[0]: number for number, commit in enumerate(order)}
    owners: list[bytes] = [b""] * len(order)
    ends: dict[int, list[bytes]] = {}
    known: dict[bytes, bytes] = {}
    for ref, oid in targets.items():
        number = at.get(peeled.get(oid, oid))
        if number is None:
            known[ref] = oid
        else:
            if not ref.startswith(TAGS):
                owners[number] = owners[number] or ref
            ends.setdefault(number, []).append(ref)
    # first parents belong to the ref of a child, which can carry them
    for number in reversed(range(len(order))):
        parent = at.get(order[number][1]) if len(order[number]) > 1 else None
        if parent is not None and not owners[parent]:
            owners[parent] = owners[number]
    if known:
        yield known
    for start in range(0, len(order), most):
        step: dict[bytes, bytes] = {}
        final: dict[bytes, bytes] = {}
        for number in range(start, min(start + most, len(order))):
            if owners[number]:
                step[owners[number]] = order[number][0]
            final.update((ref, targets[ref]) for ref in ends.get(number, ()))
        if step or final:
            yield step | final
