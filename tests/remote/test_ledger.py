"""The ledger against a plain dictionary, in random sequences with crashes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from hgext3rd.amalgam.files import Directory, Placement
from hgext3rd.amalgam.remote import ledger as ledgers
from hgext3rd.amalgam.remote.ledger import Ledger, RefRefusal
from hgext3rd.amalgam.remote.refmap import RefMap
from hgext3rd.amalgam.remote.storerefs import StoreRefs
from hgext3rd.amalgam.remote.transport import NO_OID, FailureKind

PATTERNS = ((), (b"default:main",), (b"refs/heads/*:refs/heads/hg/*",))


def lines(refs: dict[bytes, bytes]) -> bytes:
    return b"".join(b"%s %s\n" % (oid, name) for name, oid in sorted(refs.items()))


@pytest.mark.parametrize("seed", range(20))
def test_known_refs_survive_rewriting_and_crashes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "_LONG_BYTES", 2000)
    chance = random.Random(seed)
    placement = Placement(0o700, os.geteuid(), os.getegid())
    directory = Directory(bytes(tmp_path), (b"mirror",))
    mapping = RefMap(())
    there: dict[bytes, bytes] = {}
    intents: dict[bytes, list[bytes]] = {}
    Ledger(directory, placement).begin(b"url", mapping, {})
    names = [b"refs/heads/%s" % it for it in (b"default", b"a", b"b/c", b"hg/x", b"z")]
    for _step in range(150):
        ledger = Ledger(directory, placement)
        ledger.read()
        assert ledger.all_known() == there
        assert ledger.intents == intents
        for name in [*names, b"refs/heads/main", b"refs/heads/hg/z"]:
            assert ledger.known(name) == there.get(name, NO_OID)
        store = {it: b"%040x" % chance.randrange(9) for it in chance.sample(names, 3)}
        ref, oid = chance.choice([*names, b"refs/heads/main"]), b"%040x" % 10
        oid = chance.choice([oid, NO_OID])
        match chance.randrange(6):
            case 0:
                ledger.intend([(ref, there.get(ref, NO_OID), oid)])
                intents.setdefault(ref, []).append(oid)
            case 1:
                ledger.saw([(ref, oid)])
                there[ref] = oid
                there = {key: it for key, it in there.items() if it != NO_OID}
            case 2:
                ledger.wrote([(ref, oid)], pushes=1)
                there[ref] = oid
                there = {key: it for key, it in there.items() if it != NO_OID}
                intents.pop(ref, None)
            case 3:
                kind = FailureKind.RULE
                ledger.refuse([(ref, RefRefusal(oid, kind, 1, 0, b"of  the remote"))])
                assert ledger.refused[ref].reason == b"of  the remote"
                intents.pop(ref, None)
            case 4:
                mapping = RefMap(chance.choice(PATTERNS))
                ledger.end(b"look", StoreRefs(lines(store)), mapping)
                intents.clear()
            case 5:  # a line that was not finished
                with (tmp_path / "mirror" / "ledger").open("ab") as file:
                    file.write(b"2c1745a5 has refs/he"[: chance.randrange(20)])
        ledger.close()
    bases = [it for it in os.listdir(tmp_path / "mirror") if it.startswith("base-")]
    assert len(bases) == 1


@pytest.mark.parametrize("seed", range(20))
def test_differing_refs_are_found(seed: int) -> None:
    chance = random.Random(seed)
    before = {b"refs/heads/%d/%d" % (n % 7, n): b"%040x" % n for n in range(3000)}
    after = dict(before)
    for name in chance.sample(sorted(before), chance.choice([0, 1, 10, 2000])):
        match chance.randrange(3):
            case 0:
                del after[name]
            case 1:
                after[name] = b"%040x" % 0
            case 2:
                after[name + b"x"] = after.pop(name)
    both = before.items() ^ after.items()
    old, new = StoreRefs(b"# head\n" + lines(before)), StoreRefs(lines(after))
    assert new.differing(old) == {name for name, _oid in both}
    name = chance.choice(sorted(after))
    assert (new.get(name), new.get(name + b"y")) == (after[name], b"")
