"""The comparison of bundles by their receivers, which `make oracle` does at length."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracle.hgbundles import FORMATS, Receiver, compare, differences, made
from oracle.subjects import Odd
from testlib import odd
from testlib.environment import hg
from testlib.oddstore import Edit, Step


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver(Path(sys.executable))
    yield receiver
    receiver.close()


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["as it is", "tree manifests"])
def test_receivers_get_from_our_bundles_what_stock_gives(
    receiver: Receiver, tmp_path: Path, name: str
) -> None:
    subject = Odd("odd", "odd", 50, tuple(odd.steps(2, 12)))
    repository = made(subject, tmp_path, FORMATS[name])
    results = list(compare(repository, tmp_path, [receiver], 1))
    assert len(results) >= 4
    assert [str(found) for found in results if found] == []


@pytest.mark.slow
def test_changeset_with_a_second_parent_alone_is_sent_as_stock_sends_it(
    receiver: Receiver, tmp_path: Path
) -> None:
    # nodes do not tell the order of parents, and hg verify sees nothing
    steps = (
        Step(0, edits=(Edit("write", b"a", b"1\n"),)),
        Step(1, p2=0, edits=(Edit("write", b"a", b"2\n"),)),
        Step(2, p1=1, edits=(Edit("copy", b"b", source=b"a"),)),
    )
    repository = made(Odd("odd", "odd", 50, steps), tmp_path, ())
    results = list(compare(repository, tmp_path, [receiver], 1))
    assert [str(found) for found in results if found] == []


@pytest.mark.slow
def test_what_a_receiver_has_otherwise_is_named(
    receiver: Receiver, tmp_path: Path
) -> None:
    found = {}
    for side, phase in (("stock", "public"), ("ours", "draft")):
        repo = tmp_path / side
        hg(tmp_path, "init", str(repo))
        (repo / "a").write_text(f"{phase}\n")
        (repo / "b").write_text("same\n")
        hg(repo, "commit", "-qAm", "one", "-d", "0 0")
        hg(repo, "phase", f"--{phase}", "-r", ".")
        bundle = tmp_path / f"{side}.hg"
        spec = "none-v2;phases=yes"
        hg(repo, "bundle", "-qat", spec, str(bundle))
        found[side] = receiver.receive(tmp_path / "received", [str(bundle)])
    parts = {result.part for result in differences("bundle", found) if result}
    assert parts >= {"changelog", "manifest", "file a", "store/phaseroots"}
    assert "file b" not in parts
    assert found["stock"]["verify"] is False
    assert list(differences("bundle", {**found, "ours": found["stock"]})) == [None]


def test_bundle_that_is_cut_is_an_answer(receiver: Receiver, tmp_path: Path) -> None:
    bundle = tmp_path / "cut.hg"
    bundle.write_bytes(b"HG20\0\0\0\0\0\0")
    answer = receiver.receive(tmp_path / "received", [str(bundle)])
    assert "SOURCE" in answer["error"] or "stream ended" in answer["error"]


@pytest.mark.parametrize(
    ("stock", "ours", "count"),
    [
        ("unknown revlog index flags: 2048", "unknown revlog index flags: 2048", 0),
        ("incompatible revision flag '0x800'", "another", 1),
        ("no such file", "no such file", 1),
    ],
)
def test_only_flags_may_be_refused_on_both_sides(
    stock: str, ours: str, count: int
) -> None:
    found = {"stock": {"error": stock}, "ours": {"error": ours}}
    assert len([it for it in differences("a pull, 6.9.5", found) if it]) == count
