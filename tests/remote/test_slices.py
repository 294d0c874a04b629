"""Slices of random graphs: all commits arrive, few at once."""

from __future__ import annotations

import random

import pytest

from hgext3rd.amalgam.remote.slices import sliced


@pytest.mark.parametrize("seed", range(30))
def test_every_commit_arrives_and_slices_are_small(seed: int) -> None:
    chance = random.Random(seed)
    most = chance.choice([1, 5, 40])
    commits: list[list[bytes]] = []
    for number in range(200):
        near = range(max(0, number - 4), number)
        count = min(len(near), chance.choice([0, 1, 1, 1, 1, 2]))
        if number:
            count = max(count, number % 50 != 0)
        parents = [b"%d" % it for it in sorted(chance.sample(near, count))]
        commits.append([b"%d" % number, *parents])
    parents_of = {oid: parents for oid, *parents in commits}
    heads = {*parents_of} - {it for parents in parents_of.values() for it in parents}
    targets = {b"refs/heads/" + oid: oid for oid in heads}
    targets[b"refs/heads/middle"] = b"100"
    targets[b"refs/heads/known"] = b"known"
    targets[b"refs/tags/v1"], peeled = b"tag object", {b"tag object": b"150"}

    there: dict[bytes, bytes] = {}
    arrived: set[bytes] = set()
    for step in sliced(commits, targets, most, peeled):
        pending = [peeled.get(oid, oid) for oid in step.values()]
        pending = [oid for oid in pending if oid in parents_of]
        new: set[bytes] = set()
        while pending:
            oid = pending.pop()
            if oid not in arrived | new:
                new.add(oid)
                pending += parents_of[oid]
        assert len(new) <= 3 * most + 8
        arrived |= new
        there |= step
    assert there == targets
    assert arrived == parents_of.keys()
