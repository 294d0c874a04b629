"""Which packs are rolled up: the rule, on dockets without files."""

from __future__ import annotations

import random

from hgext3rd.amalgam.gitstore import packgroups
from hgext3rd.amalgam.gitstore.docket import Docket, Layer, MetadataCommit
from hgext3rd.amalgam.gitstore.export import docketedits


class Packs:
    """Packs that exports add and roll-ups join, with the objects that each has."""

    def __init__(self) -> None:
        self.objects: dict[str, int] = {}
        self.docket = Docket()
        self.copied = 0

    def new(self, objects: int) -> str:
        name = f"pack-{len(self.objects):040x}"
        self.objects[name] = objects
        return name

    def export(self, which: str, objects: int) -> None:
        layer: Layer = getattr(self.docket, which)
        packs = (*layer.packs, self.new(objects))
        grown = Layer(("segment",), packs, layer.complete)
        is_base = which == "base"
        docket = self.docket
        self.docket = docket._replace(
            base=grown if is_base else docket.base,
            drafts=docket.drafts if is_base else grown,
        )

    def maintain(self) -> None:
        while due := packgroups.due(self.docket, self.objects.__getitem__):
            sources = due[0].packs
            assert docketedits.can_roll_up(self.docket, sources)
            total = sum(map(self.objects.__getitem__, sources))
            self.copied += total
            made = self.new(total)
            self.docket = docketedits.rolled_up(self.docket, sources, [made])


def test_there_are_never_64_packs_and_objects_are_seldom_copied() -> None:
    draw = random.Random(17)
    for largest in (1, 10, 1000, 100_000):
        packs, added, most = Packs(), 0, 0
        for _export in range(5000):
            objects = draw.randint(1, largest)
            added += objects
            packs.export("drafts" if draw.random() < 0.3 else "base", objects)
            most = max(most, len(packs.docket.packs))
            packs.maintain()
        assert most < 64
        of_base, of_drafts = (
            sum(map(packs.objects.__getitem__, layer.packs))
            for layer in (packs.docket.base, packs.docket.drafts)
        )
        assert of_base + of_drafts == added
        assert packs.copied < 12 * added


def test_growth_is_what_equal_exports_add_before_a_roll_up() -> None:
    packs = Packs()
    count = packs.objects.__getitem__
    packs.export("base", 1000)
    assert packgroups.growth(packs.docket, count, count) == 0
    packs.export("base", 5)
    forecast = packgroups.growth(packs.docket, count, count)
    before = sum(packs.objects.values())
    # one pack is larger than all others, and 16 wait
    while len(packs.docket.base.packs) < 17:
        packs.export("base", 5)
    grown = sum(packs.objects.values()) - before
    assert grown // 2 < forecast <= grown
    assert packgroups.due(packs.docket, count)
    assert packgroups.growth(packs.docket, count, count) == 0


def test_few_packs_are_left_alone() -> None:
    packs = Packs()
    for _export in range(8):
        packs.export("base", 5)
    assert packgroups.due(packs.docket, packs.objects.__getitem__) == []


def test_packs_of_metadata_commits_and_the_complete_one_stay() -> None:
    packs = Packs()
    for _export in range(60):
        packs.export("base", 5)
    complete = packs.docket.base.packs[0]
    base = packs.docket.base._replace(complete=complete)
    commit = MetadataCommit("1" * 40, 60, (packs.new(7),))
    packs.docket = packs.docket._replace(base=base, base_commit=commit)
    packs.maintain()
    assert packs.docket.base.complete == complete
    assert packs.docket.base_commit == commit
    assert {complete, *commit.packs} <= {*packs.docket.packs}
    assert not docketedits.can_roll_up(packs.docket, (complete, *commit.packs))


def test_what_is_not_of_one_group_is_not_rolled_up() -> None:
    packs = Packs()
    for layer in ("base", "drafts"):
        packs.export(layer, 5)
        packs.export(layer, 5)
    docket = packs.docket
    base, drafts = docket.base, docket.drafts
    assert docketedits.can_roll_up(docket, base.packs)
    assert not docketedits.can_roll_up(docket, (base.packs[0], drafts.packs[0]))
    assert not docketedits.can_roll_up(docket, (base.packs[0], "pack-gone"))
    assert docketedits.can_roll_up(docket, drafts.packs)
    recent = docket._replace(recent=drafts.packs[1:])
    assert not docketedits.can_roll_up(recent, drafts.packs)
    assert not docketedits.can_roll_up(docket, ())
    for changed in ({"refused": True}, {"dropped": ("pack-1",)}):
        assert not docketedits.can_roll_up(docket._replace(**changed), base.packs)


def test_complete_pack_is_only_exchanged_for_another() -> None:
    packs = Packs()
    packs.export("base", 5)
    packs.export("base", 5)
    first, second = packs.docket.base.packs
    base = packs.docket.base._replace(complete=first)
    docket = packs.docket._replace(base=base)
    assert not docketedits.can_roll_up(docket, (first, second))
    assert docketedits.can_roll_up(docket, (first, second), "pack-new")
    assert not docketedits.can_roll_up(docket, (second,), "pack-new")
    done = docketedits.rolled_up(
        docket, (first, second), ("pack-new", "pack-2"), "pack-new"
    )
    assert done.base.complete == "pack-new"
    assert done.base.packs[:2] == ("pack-new", "pack-2")
