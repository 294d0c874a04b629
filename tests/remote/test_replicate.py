"""Replication to a host that refuses, fails, and is written to by others."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from testlib.environment import ENVIRONMENT, HG, git
from testlib.exported import STRIP, Exported
from testlib.githost import Behaviour, GitHost, HostedRepository

pytestmark = pytest.mark.slow

DEFAULT, FEATURE, TAG = "refs/heads/default", "refs/heads/feature/one", "refs/tags/v1"
EQUAL, REFUSED, FAILED = 0, 1, 2


class Mirrored:
    """A repository and its mirror at the host."""

    def __init__(self, store: Exported, remote: HostedRepository) -> None:
        self.store = store
        self.remote = remote
        self.state = store.amalgam / "replicate" / "mirror"
        hgrc = store.root / ".hg" / "hgrc"
        with hgrc.open("a") as file:
            file.write(f"\n[amalgam]\nreplicate.mirror = {remote.url}\n")

    def set(self, **items: str) -> None:
        with (self.store.root / ".hg" / "hgrc").open("a") as file:
            for name, value in items.items():
                item = name.replace("_", "-")
                file.write(f"replicate.mirror.{item} = {value}\n")

    def behave(self, **switches: Any) -> None:
        self.remote.behaviour = Behaviour(**switches)

    def push(self, *args: str) -> tuple[int, dict[str, Any]]:
        """Push; return the exit code and the result."""
        done = self.store.run("git::push", "mirror", "-T", "json", *args)
        (result,) = json.loads(done.out)
        return done.code, result

    def actions(self, *args: str) -> dict[str, str]:
        """Push; return what became of each ref."""
        return {it["ref"]: it["action"] for it in self.push(*args)[1]["refs"]}

    def wanted(self) -> dict[str, str]:
        """Return the branches and tags of the store."""
        form = "--format=%(refname) %(objectname)"
        listed = self.store.git("for-each-ref", form, "refs/heads", "refs/tags")
        return dict(line.split(" ") for line in listed.splitlines())

    def is_equal(self) -> bool:
        return self.remote.refs() == self.wanted()

    def commit(self, name: str) -> None:
        self.store.commit(name)


@pytest.fixture
def mirrored(store: Exported, host: GitHost) -> Mirrored:
    return Mirrored(store, host.add("mirror"))


def test_only_changed_refs_are_sent_and_nothing_asks_without_a_change(
    mirrored: Mirrored,
) -> None:
    assert set(mirrored.actions().values()) == {"created"}
    assert mirrored.is_equal()
    mirrored.commit("more")
    assert mirrored.actions() == {DEFAULT: "moved"}
    assert mirrored.is_equal()
    *_before, last = mirrored.remote.pushes()
    assert last.keys() == {DEFAULT}
    mirrored.behave(status=503)  # no request, no error
    assert mirrored.push() == (EQUAL, {**mirrored.push()[1], "refs": [], "pushes": 0})


def test_refs_of_others_are_refused_or_adopted(mirrored: Mirrored) -> None:
    oid = mirrored.remote.edit("refs/heads/theirs")
    code, result = mirrored.push()
    assert (code, result["kind"]) == (FAILED, "moved")
    assert "refs/heads/theirs" in result["reason"]
    assert mirrored.remote.pushes() == []
    assert mirrored.push("--adopt")[0] == EQUAL
    assert mirrored.remote.refs() == {**mirrored.wanted(), "refs/heads/theirs": oid}
    assert mirrored.push("--prune")[0] == EQUAL
    assert mirrored.remote.refs()["refs/heads/theirs"] == oid


def test_a_mirror_of_another_tool_is_adopted_where_it_is_equal_or_behind(
    mirrored: Mirrored,
) -> None:
    url = str(mirrored.remote.path)
    mirrored.store.git("push", "-q", url, f"{DEFAULT}~1:{DEFAULT}", f"{TAG}:{TAG}")
    foreign = mirrored.remote.edit(FEATURE)
    code, result = mirrored.push("--adopt")
    assert code == REFUSED
    refused = {it["ref"]: it for it in result["refs"] if it["action"] == "refused"}
    assert refused.keys() == {FEATURE}
    assert foreign[:12] in refused[FEATURE]["reason"]
    assert mirrored.remote.refs() == {**mirrored.wanted(), FEATURE: foreign}


def test_a_ref_that_others_moved_is_refused_until_it_is_named(
    mirrored: Mirrored,
) -> None:
    mirrored.push()
    foreign = mirrored.remote.edit(DEFAULT)
    mirrored.commit("more")
    mirrored.store.hg("bookmark", "-f", "-r", "tip", "feature/one")
    code, result = mirrored.push()
    assert code == REFUSED
    by_ref = {it["ref"]: it for it in result["refs"]}
    assert by_ref[FEATURE]["action"] == "moved"
    assert foreign[:12] in by_ref[DEFAULT]["reason"]
    assert mirrored.remote.refs()[DEFAULT] == foreign
    assert mirrored.store.run("git::push", "mirror", "--force").code == 10
    assert mirrored.actions("--force", "-B", "default") == {DEFAULT: "forced"}
    assert mirrored.push()[0] == EQUAL
    assert mirrored.is_equal()


def test_a_rewound_remote_is_refused_and_healed_by_adoption(
    mirrored: Mirrored,
) -> None:
    mirrored.push()
    mirrored.remote.rewind(DEFAULT)
    mirrored.commit("more")
    assert mirrored.push()[0] == REFUSED
    assert mirrored.push("--adopt")[0] == EQUAL
    assert mirrored.is_equal()


def test_one_refused_ref_does_not_hold_back_others(mirrored: Mirrored) -> None:
    mirrored.behave(protected=(DEFAULT,))
    code, result = mirrored.push()
    assert code == REFUSED
    refused = [it for it in result["refs"] if it["action"] == "refused"]
    assert [it["ref"] for it in refused] == [DEFAULT]
    assert "GH006: Protected branch update failed" in refused[0]["reason"]
    mirrored.behave()
    assert mirrored.actions() == {DEFAULT: "created"}
    assert mirrored.is_equal()


def test_a_push_that_is_declined_as_a_whole_is_halved(mirrored: Mirrored) -> None:
    mirrored.set(refs="refs/heads/* refs/tags/* stable:refs/odd/stable")
    mirrored.behave(only_branches_and_tags=True)
    code, result = mirrored.push()
    assert code == REFUSED
    refused = [it for it in result["refs"] if it["action"] == "refused"]
    assert [it["ref"] for it in refused] == ["refs/odd/stable"]
    there, wanted = mirrored.remote.refs(), mirrored.wanted()
    assert wanted.keys() - there.keys() == {"refs/heads/stable"}


def test_a_remote_that_declines_everything_is_not_asked_for_each_ref(
    mirrored: Mirrored,
) -> None:
    for number in range(100):
        mirrored.store.hg("bookmark", "-r", "0", f"many/{number}")
    mirrored.behave(declines="error:\nerror: go away\nerror:")  # as Gitea's hook does
    code, result = mirrored.push()
    assert (code, result["pushes"]) == (REFUSED, 25 + 24)
    assert {(it["action"], it["reason"]) for it in result["refs"]} == {
        ("refused", "pre-receive hook declined: error: go away")
    }
    mirrored.behave()
    assert mirrored.push()[0] == EQUAL
    assert mirrored.is_equal()


@pytest.mark.parametrize(
    ("switches", "kind", "words"),
    [
        ({"password": "pw"}, "login", "could not read Username"),
        ({"status": 403}, "login", "403"),
        ({"status": 503}, "transient", "503"),
        ({"cut_after_bytes": 100}, "transient", ""),
        ({"file_bytes": 10_000}, "transient", ""),
    ],
)
def test_a_failure_is_told_and_the_next_push_does_the_rest(
    mirrored: Mirrored, switches: dict[str, Any], kind: str, words: str
) -> None:
    mirrored.store.commit("large", text=random.Random(1).randbytes(50_000))
    mirrored.behave(**switches)
    code, result = mirrored.push()
    assert code in (REFUSED, FAILED)
    reasons = result["reason"] + "".join(it["reason"] for it in result["refs"])
    kinds = {result["kind"]} - {""} or {"transient"}
    assert kinds == {kind}
    assert words in reasons != ""
    mirrored.behave()
    assert mirrored.push()[0] == EQUAL
    assert mirrored.is_equal()


def test_a_lost_answer_is_asked_for(mirrored: Mirrored) -> None:
    mirrored.push()
    mirrored.commit("more")
    mirrored.behave(loses_answer=True)
    code, _result = mirrored.push()
    assert mirrored.is_equal()
    mirrored.behave()
    before = len(mirrored.remote.pushes())
    assert mirrored.push()[0] == EQUAL
    assert len(mirrored.remote.pushes()) == before
    assert code == EQUAL


def test_a_silent_remote_is_given_up(mirrored: Mirrored) -> None:
    mirrored.set(timeout="2")
    mirrored.behave(stalls=True)
    code, result = mirrored.push()
    assert (code, result["kind"]) == (FAILED, "transient")
    assert "no progress for 2 seconds" in result["reason"]
    mirrored.behave()
    assert mirrored.push()[0] == EQUAL


@pytest.mark.parametrize("has_limit", [False, True])
def test_a_first_push_goes_in_slices(
    large: Exported, host: GitHost, has_limit: bool
) -> None:
    mirrored = Mirrored(large, host.add("mirror"))
    if has_limit:
        mirrored.behave(most_commits=400)
    else:
        mirrored.set(slice="400")
    code, result = mirrored.push()
    assert code == EQUAL
    assert result["pushes"] >= 3
    assert mirrored.is_equal()
    created = {it["action"] for it in result["refs"]}
    assert created == {"created"}


def test_an_interrupted_first_push_goes_on(large: Exported, host: GitHost) -> None:
    mirrored = Mirrored(large, host.add("mirror"))
    mirrored.set(slice="200")
    mirrored.behave(piece_seconds=0.02)
    process = start(large.root, "git::push", "mirror")
    while not mirrored.remote.pushes()[1:]:
        time.sleep(0.05)
    process.kill()
    process.wait()
    mirrored.behave()
    done = len(mirrored.remote.pushes())
    code, result = mirrored.push()
    if code == REFUSED:  # git of the killed process wrote the same ref in that moment
        code, result = mirrored.push()
    assert (code, mirrored.is_equal()) == (EQUAL, True)
    assert result["pushes"] <= 7 - done + 1


def test_gone_refs_go_only_with_prune(mirrored: Mirrored) -> None:
    mirrored.push()
    mirrored.store.hg("bookmark", "-d", "feature/one")
    assert mirrored.actions() == {FEATURE: "kept"}
    assert FEATURE in mirrored.remote.refs()
    assert mirrored.actions("--prune") == {FEATURE: "deleted"}
    assert mirrored.is_equal()
    mirrored.store.hg("bookmark", "-r", "0", "feature/one")
    assert mirrored.actions() == {FEATURE: "created"}
    # a name that is a directory of another
    mirrored.store.hg("bookmark", "-d", "feature/one")
    mirrored.store.hg("bookmark", "-r", "0", "feature")
    mirrored.set(prune="yes")
    actions = mirrored.actions()
    assert actions == {FEATURE: "deleted", "refs/heads/feature": "created"}


_HIDE = ("--config", "experimental.evolution.createmarkers=yes", "debugobsolete")


@pytest.mark.parametrize("is_allowed", [True, False])
@pytest.mark.parametrize("way", ["strip", "secret", "obsolete"])
def test_a_changeset_that_may_not_be_read_is_deleted_there(
    mirrored: Mirrored, way: str, is_allowed: bool
) -> None:
    store = mirrored.store
    store.hg("update", "-q", "0")
    store.commit("confidential", "--config", "phases.new-commit=draft")
    store.hg("bookmark", "-r", "tip", "work")
    mirrored.push()
    assert "refs/heads/work" in mirrored.remote.refs()
    if not is_allowed:
        mirrored.behave(protected=("refs/heads/work",))
    node = store.hg("log", "-r", "tip", "-T", "{node}")
    store.hg("update", "-q", "0")
    store.hg("bookmark", "-d", "work")
    match way:
        case "strip":
            store.hg(*STRIP, "-r", node)
        case "secret":
            store.hg("phase", "--secret", "--force", "-r", node)
        case "obsolete":
            store.hg(*_HIDE, node)
    code, result = mirrored.push()
    (of_work,) = [it for it in result["refs"] if it["ref"] == "refs/heads/work"]
    if is_allowed:
        assert (code, of_work["action"]) == (EQUAL, "deleted")
        assert mirrored.is_equal()
    else:
        assert (code, of_work["action"]) == (REFUSED, "refused")
        assert of_work["unreadable"]
        assert b"is not served here any more" in store.run("git::push", "mirror").err


@pytest.mark.parametrize(
    "switches", [{"password": "pw"}, {"status": 503}, {"cut_after_bytes": 100}]
)
def test_a_password_of_gits_configuration_is_nowhere(
    mirrored: Mirrored, tmp_path: Path, switches: dict[str, Any]
) -> None:
    """Not in output, ledger or failure."""
    bare = mirrored.remote.url.removesuffix("mirror")
    config = tmp_path / "gitconfig"
    url = bare.replace("://", "://mirror:verysecret@")
    config.write_text(f'[url "{url}"]\n\tinsteadOf = {bare}\n')
    mirrored.behave(**switches)
    command = [sys.executable, str(HG), "--config", "extensions.amalgam=", "--debug"]
    done = subprocess.run(
        [*command, "git::push", "mirror"],
        cwd=mirrored.store.root,
        env=ENVIRONMENT | {"GIT_CONFIG_GLOBAL": str(config)},
        capture_output=True,
    )
    assert done.returncode == FAILED
    written = [it.read_bytes() for it in mirrored.state.iterdir()]
    shown = mirrored.store.run("admin::amalgam").out
    assert b"failed" in shown
    assert b"verysecret" not in b"".join([done.stdout, done.stderr, shown, *written])


def test_a_ref_that_others_made_equal_is_theirs(mirrored: Mirrored) -> None:
    """It is neither deleted nor moved before somebody takes it over."""
    mirrored.push()
    theirs = "refs/heads/theirs"
    url, oid = str(mirrored.remote.path), mirrored.store.ids("2")[1]
    mirrored.store.git("push", "-q", url, f"{oid}:{theirs}")
    mirrored.store.hg("bookmark", "-r", "2", "theirs")
    for _try in range(2):
        code, result = mirrored.push()
        assert code == REFUSED
        (refused,) = result["refs"]
        assert (refused["ref"], refused["action"]) == (theirs, "refused")
        assert "--adopt takes it over" in refused["reason"]
    mirrored.store.hg("bookmark", "-d", "theirs")
    assert mirrored.push("--prune")[0] == EQUAL
    assert mirrored.remote.refs()[theirs] == oid
    mirrored.store.hg("bookmark", "-r", "2", "theirs")
    assert mirrored.push("--force", "-B", "theirs")[0] == EQUAL
    mirrored.store.hg("bookmark", "-d", "theirs")
    assert mirrored.actions("--prune") == {theirs: "deleted"}


def test_refs_that_others_deleted_do_not_hold_back_others(mirrored: Mirrored) -> None:
    names = [f"gone{number}" for number in range(3)]
    for name in names:
        mirrored.store.hg("bookmark", "-r", "0", name)
    mirrored.push()
    mirrored.store.hg("bookmark", "-d", *names)
    mirrored.remote.git("update-ref", "-d", "refs/heads/gone1")
    code, result = mirrored.push("--prune")
    assert (code, mirrored.is_equal()) == (EQUAL, True), result


def test_only_branches_and_tags_are_asked_for(
    mirrored: Mirrored, tmp_path: Path
) -> None:
    """Hosts have many other refs; git lists them only for odd patterns."""

    def prefixes(*args: str) -> list[str]:
        trace = tmp_path / "trace"
        trace.unlink(missing_ok=True)
        words = ("git::push", "mirror", *args)
        start(mirrored.store.root, *words, GIT_TRACE_PACKET=str(trace)).wait()
        lines = [it.partition("> ref-prefix ") for it in trace.read_text().splitlines()]
        return sorted(prefix for _before, mark, prefix in lines if mark)

    assert prefixes() == prefixes("--check") == ["refs/heads/", "refs/tags/"]
    mirrored.set(refs="refs/heads/* stable:refs/odd/stable")
    assert prefixes("--check") == []


def test_patterns_choose_and_rename(mirrored: Mirrored) -> None:
    mirrored.set(refs="default:main refs/heads/* !feature/*")
    mirrored.push()
    wanted = mirrored.wanted()
    expected = {
        name.replace(DEFAULT, "refs/heads/main"): oid
        for name, oid in wanted.items()
        if name.startswith("refs/heads/") and name != FEATURE
    }
    assert mirrored.remote.refs() == expected
    # other patterns: what is not wanted any more stays unless it is pruned
    mirrored.set(refs="refs/heads/*")
    assert mirrored.actions()["refs/heads/main"] == "kept"
    assert mirrored.actions("--prune") == {"refs/heads/main": "deleted"}
    heads = {k: v for k, v in wanted.items() if k.startswith("refs/heads/")}
    assert mirrored.remote.refs() == heads
    # two refs of one name are refused, both
    mirrored.set(refs="stable:default refs/heads/*")
    code, result = mirrored.push()
    assert code == REFUSED
    assert {it["ref"] for it in result["refs"] if it["action"] == "refused"} == {
        DEFAULT
    }


def test_tags_go_in_pushes_of_their_own_if_wanted(mirrored: Mirrored) -> None:
    for number in range(6):
        mirrored.store.hg("tag", "-r", "0", f"t{number}")
    mirrored.set(tags_per_push="3")
    assert mirrored.push()[0] == EQUAL
    tags = [
        sum(ref.startswith("refs/tags/") for ref in it)
        for it in mirrored.remote.pushes()
    ]
    assert max(tags) == 3
    assert sum(tags) == 7


def test_a_lost_or_damaged_ledger_costs_a_comparison(mirrored: Mirrored) -> None:
    mirrored.push()
    ledger = mirrored.state / "ledger"
    content = ledger.read_bytes()
    for damaged in (b"", content[:40], b"x" + content, None):
        mirrored.commit(f"more{damaged!r:.5}".replace("'", ""))
        if damaged is None:
            ledger.unlink()
        else:
            ledger.write_bytes(damaged)
        assert mirrored.push()[0] == EQUAL
        assert mirrored.is_equal()
    # an old one: the remote has newer values, which count as those of somebody else
    shutil.copy(ledger, mirrored.state / "old")
    mirrored.commit("even more")
    mirrored.push()
    os.replace(mirrored.state / "old", ledger)
    mirrored.commit("most")
    foreign = mirrored.remote.refs()
    assert mirrored.push()[0] == REFUSED
    assert mirrored.remote.refs() == foreign
    assert mirrored.push("--adopt")[0] == EQUAL
    assert mirrored.is_equal()
    # without any state, nothing counts as ours
    shutil.rmtree(mirrored.state)
    done = mirrored.store.run("git::push", "mirror")
    assert done.code == FAILED
    assert b"(run 'hg git::push --adopt mirror' to take over" in done.err
    assert mirrored.push("--adopt")[0] == EQUAL


def test_another_process_is_waited_for_or_named(mirrored: Mirrored) -> None:
    mirrored.behave(stalls=True)
    process = start(mirrored.store.root, "git::push", "mirror")
    while not (mirrored.state / "ledger").exists():
        time.sleep(0.05)
    assert mirrored.push()[0] == 3
    mirrored.behave()
    process.terminate()
    process.wait()
    assert mirrored.push("--wait")[0] == EQUAL


def test_check_names_differences_and_writes_nothing(mirrored: Mirrored) -> None:
    mirrored.push()
    assert mirrored.push("--check")[0] == EQUAL
    mirrored.remote.edit(DEFAULT)
    before = mirrored.remote.refs()
    code, result = mirrored.push("--check")
    assert code == REFUSED
    assert {it["ref"]: it["action"] for it in result["refs"]} == {DEFAULT: "different"}
    assert mirrored.remote.refs() == before


def test_a_dry_run_writes_nothing(mirrored: Mirrored) -> None:
    assert set(mirrored.actions("--dry-run").values()) == {"created"}
    assert mirrored.remote.refs() == {}
    assert not mirrored.state.exists()
    mirrored.push()
    mirrored.commit("more")
    assert mirrored.actions("--dry-run")[DEFAULT] == "moved"
    assert mirrored.remote.refs() != mirrored.wanted()


def start(root: Path, *args: str, **variables: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HG), "--config", "extensions.amalgam=", *args]
    return subprocess.Popen(
        command,
        cwd=root,
        env=ENVIRONMENT | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


_DYING = """
import os
from hgext3rd.amalgam.remote import staging
from hgext3rd.amalgam.remote.ledger import Ledger

def dying(call):
    def called(*args, **options):
        call(*args, **options)
        os._exit(9)
    return called

def extsetup(ui):
    {owner}.{name} = dying({owner}.{name})
"""


@pytest.mark.parametrize(
    ("owner", "name", "pushes"),
    [
        ("Ledger", "intend", 1),
        ("staging", "push", 0),
        ("Ledger", "wrote", 0),
        ("Ledger", "end", 0),
    ],
)
def test_a_process_that_dies_after_a_step_loses_nothing(
    mirrored: Mirrored, tmp_path: Path, owner: str, name: str, pushes: int
) -> None:
    """The intents are written, git has pushed, answers are noted, all is done."""
    mirrored.push()
    mirrored.commit("more")
    mirrored.store.hg("bookmark", "-r", "tip", "new")
    dying = tmp_path / "dying.py"
    dying.write_text(_DYING.format(owner=owner, name=name))
    command = [str(HG), "-R", str(mirrored.store.root), "git::push", "mirror"]
    command += ["--config", "extensions.amalgam="]
    command += ["--config", f"extensions.dying={dying}"]
    assert subprocess.run(command, env=ENVIRONMENT).returncode == 9
    before = len(mirrored.remote.pushes())
    code, result = mirrored.push()
    assert (code, result["pushes"]) == (EQUAL, pushes)
    assert mirrored.is_equal()
    assert len(mirrored.remote.pushes()) == before + pushes
    assert mirrored.push("--check")[0] == EQUAL


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(30))
def test_a_process_killed_at_any_moment_loses_nothing(
    mirrored: Mirrored, seed: int
) -> None:
    chance = random.Random(seed)
    mirrored.behave(piece_seconds=0.01)
    for number in range(3):
        mirrored.commit(f"more{number}")
        process = start(mirrored.store.root, "git::push", "mirror")
        time.sleep(chance.uniform(0.1, 1.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
    mirrored.behave()
    time.sleep(0.5)  # git of a killed process may still be at work
    assert mirrored.push()[0] == EQUAL
    assert mirrored.is_equal()
    assert git(mirrored.remote.path, "fsck", "--connectivity-only") is not None
