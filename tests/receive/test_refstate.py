"""The refs that a push asks for, compared with all refs of the repository."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from mercurial import context, obsolete, phases
from mercurial.node import nullid
from testlib.environment import add_config
from testlib.exported import Exported
from testlib.hgserver import HgServer

from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.gitstore.git.refs import HEADS, NamedNodes
from hgext3rd.amalgam.gitstore.store import GitStore
from hgext3rd.amalgam.receive.refstate import RefState

BRANCHES = b"default a/b release%202 x\\y".replace(b"%20", b" ").split(b" ")
NAMES = [*BRANCHES, *b"@ main a a/b/c a/c x%20y %61 branches/default work".split()]
STEPS = 60


class Changes:
    """Random changes within transactions."""

    def __init__(self, repo: Any, rand: random.Random) -> None:
        self._repo, self._random = repo, rand

    def make(self, transaction: Any) -> None:
        """Make one."""
        rand, repo = self._random, self._repo
        revs = [*repo.revs(b"all()")]
        if not revs or rand.random() < 0.4:
            self._commit(revs)
            return
        ctx = repo[rand.choice(revs)]
        what = rand.choices(range(4), (12, 3, 3, 2))[0]
        if what == 0:
            names = [rand.choice(NAMES), *repo._bookmarks]
            changes = [(rand.choice(names), rand.choice((ctx.node(), None)))]
            repo._bookmarks.applychanges(repo, transaction, changes)
        elif what == 1:
            head = repo[rand.choice(repo.heads())]
            if head.mutable():
                obsolete.createmarkers(repo, [((head,), ())])
        elif what == 2:
            if ctx.mutable() and ctx.rev() > max(revs) - 4:
                secret = [ctx.node()]
                phases.retractboundary(repo, transaction, phases.secret, secret)
        else:
            phases.advanceboundary(repo, transaction, phases.draft, repo.heads())

    def _commit(self, revs: list[int]) -> None:
        rand, repo = self._random, self._repo
        parents = [repo[rev].node() for rev in rand.sample(revs[-6:], bool(revs))]
        extra = {b"branch": rand.choice(BRANCHES)}
        if not rand.randrange(8):
            extra[b"close"] = b"1"
        text = b"%d" % rand.getrandbits(60)
        nodes = [*parents, nullid, nullid][:2]
        context.memctx(
            repo, nodes, text, [], None, user=b"test", date=b"0 0", extra=extra
        ).commit()


def all_refs(state: RefState, kinds: str) -> dict[bytes, bytes]:
    named = NamedNodes.of(state.view, kinds.encode().split(b","))
    refs, head = named.refs()
    assert state.head == head
    assert state.is_empty == (not refs)
    return refs


def check_answers(state: RefState, refs: dict[bytes, bytes]) -> None:
    """Ask for each ref and for each name."""
    asked = {*refs, *(HEADS + name for name in NAMES), HEADS + b"branches/a/b"}
    assert {ref: state.node(ref) for ref in asked} == {
        ref: refs.get(ref) for ref in asked
    }


def check_ways(state: RefState, refs: dict[bytes, bytes], rand: random.Random) -> None:
    heads = {ref: node for ref, node in refs.items() if ref.startswith(HEADS)}
    without = {*rand.sample(sorted(heads), len(heads) // 2)}
    nodes = [node for ref, node in heads.items() if ref not in without]
    led = set[int]()
    revs = [*state.view.revs(b"last(all(), 6)")]
    for rev in rand.sample(revs, len(revs)):
        is_on_one, node = bool(state.view.revs(b"%d::%ln", rev, nodes)), state.view[rev]
        assert state.leads_to(node.node(), without) == is_on_one
        assert state.leads_to(node.node(), without, led) == is_on_one


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["bookmarks,tips,tags", "bookmarks,tips,heads"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "1"))))
def test_moves_of_a_transaction_are_those_of_all_refs(
    tmp_path: Path, server: HgServer, seed: int, kinds: str
) -> None:
    store = Exported.init(tmp_path / "repo", server)
    evolution = "[experimental]\nevolution = all\n[phases]\nnew-commit = draft\n"
    refs = f"[amalgam]\ngit.refs = {kinds}\n"
    add_config(store.root, "[ui]\nusername = test\n" + evolution + refs)
    rand = random.Random(seed)
    for _step in range(STEPS):
        repo = store.open()
        exported = GitStore(repo, GitConfig.from_ui(repo.ui))
        with repo.wlock(), repo.lock():
            state = RefState.of(repo, exported)
            before = all_refs(state, kinds)
            check_answers(state, before)
            check_ways(state, before, rand)
            with repo.transaction(b"test") as transaction:
                changes = Changes(repo, rand)
                for _number in range(rand.choice((1, 1, 2, 6))):
                    changes.make(transaction)
                now = RefState.of(repo, exported)
                after = all_refs(now, kinds)
                former = state.former(now, transaction)
                check_answers(former, before)
                check_answers(now, after)
                assert former.moves(now, transaction) == {
                    ref: (before.get(ref), after.get(ref))
                    for ref in before.keys() | after.keys()
                    if before.get(ref) != after.get(ref)
                }
