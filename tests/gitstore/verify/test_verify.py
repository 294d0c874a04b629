"""What ``git::verify`` finds, and ``admin::amalgam --repair`` mends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from mercurial import error
from testlib.environment import git
from testlib.exported import (
    Exported,
)
from testlib.faults import (
    FULL,
    QUICK,
    Fault,
    a_corrupt_idx,
    a_foreign_pack,
    a_stale_ref,
    a_wrong_head,
    a_wrong_ref,
)

from hgext3rd.amalgam.gitstore import verify
from hgext3rd.amalgam.gitstore.docket import Docket
from hgext3rd.amalgam.gitstore.status import repair
from hgext3rd.amalgam.gitstore.verify import Findings


def verified(store: Exported, full: bool = False, **config: str) -> Findings:
    return verify.run(store.git_store(**config), full=full)


def lines(findings: Findings) -> list[str]:
    return [f"{difference.line().decode()}\n" for difference in findings.differences]


def notes(findings: Findings) -> list[str]:
    return [f"{note.line().decode()}\n" for note in findings.notes]


@pytest.mark.slow
@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.__name__)
def test_fault_is_named_and_mended(store: Exported, fault: Fault) -> None:
    expected = fault(store)
    findings = verified(store)
    assert [line for line in lines(findings) if re.fullmatch(expected + "\n", line)]

    before, after = repair(store.git_store())

    assert lines(before) == lines(findings)
    assert lines(after) == []
    assert lines(verified(store, full=True)) == []
    git(store.git_dir, "fsck", "--full", "--strict")


@pytest.mark.slow
@pytest.mark.parametrize("fault", FULL, ids=lambda fault: fault.__name__)
def test_full_form_names_what_the_quick_one_cannot_know(
    store: Exported, fault: Fault
) -> None:
    expected = fault(store)
    assert lines(verified(store)) == []
    found = lines(verified(store, full=True))
    assert [line for line in found if re.fullmatch(expected + "\n", line)]

    store.hg("git::export", "--rebuild")

    assert lines(verified(store, full=True)) == []


def test_there_are_enough_faults() -> None:
    assert len(QUICK) >= 30
    assert len(FULL) >= 3


def test_several_faults_are_all_named_and_mended(store: Exported) -> None:
    faults = [a_wrong_ref, a_stale_ref, a_foreign_pack, a_wrong_head, a_corrupt_idx]
    expected = [fault(store) for fault in faults]
    found = lines(verified(store))
    for line in expected:
        assert [there for there in found if re.fullmatch(line + "\n", there)]
    assert lines(repair(store.git_store())[1]) == []


def test_without_an_export_there_is_nothing_to_verify(empty: Exported) -> None:
    with pytest.raises(error.StateError, match="nothing is exported yet"):
        verified(empty)


def test_empty_repository_is_fine(empty: Exported) -> None:
    store = empty
    store.hg("git::export")
    assert lines(verified(store, full=True)) == []


def test_other_values_of_refs_and_export_are_respected(store: Exported) -> None:
    assert lines(verified(store)) == []
    found = lines(verified(store, git__refs="tips"))
    assert len([line for line in found if "expected nothing" in line]) == 3
    store.hg("phase", "--force", "--draft", "tip")
    found = lines(verified(store, git__export="public"))
    assert [line for line in found if "because it is not served" in line]


def test_changesets_that_no_ref_leads_to_are_noted(store: Exported) -> None:
    assert verified(store).unreachable == 0
    store.hg("update", "-q", "1")
    for name in "ab":
        (store.root / name).write_text(name)
        store.hg("commit", "-qAm", name)
    store.hg("update", "-q", "desc(last)")
    store.commit_nothing("tip")
    store.hg("git::export")
    findings = verified(store)
    assert lines(findings) == []
    assert findings.unreachable == 2
    text = "no ref leads to 2 changesets in 1 head"
    assert notes(findings) == [f"note: refs: {text}\n"]


def test_partial_export_names_what_is_not_exported(empty: Exported) -> None:
    store = empty
    for number in range(3):
        (store.root / "file").write_text(f"{number}\n")
        store.hg("commit", "-qAm", f"{number}")
    store.hg("git::export", "-r", "1")
    node = store.hg("log", "-r", "2", "-T", "{node}")
    expected = [
        f"changeset {node}: found nothing, expected a commit\n",
        "ref refs/heads/default: found nothing, expected the commit of changeset "
        f"{node}, which is not exported yet\n",
    ]
    assert lines(verified(store)) == expected
    assert lines(verified(store, full=True)) == expected


ODD_NAMES = [
    ".git/config",
    "sub/.GIT/hooks/post-checkout",
    "git~1",
    "a\u200c/.g\u200cit",
    "tab\there",
    "bell\x07",
]
FINE_NAMES = [".gitignore", ".github/x", "a.git/b", "dot./x", "..a/b", "git", "ab c"]


def test_names_that_git_refuses_are_noted(empty: Exported) -> None:
    store = empty
    for name in ODD_NAMES + FINE_NAMES:
        path = store.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    store.hg("commit", "-qAm", "odd")
    (store.root / ".git/secret").write_text("secret")
    store.hg("commit", "-qAm", "secret", "--secret")
    store.hg("git::export")

    findings = verified(store, full=True)

    assert lines(findings) == []
    noted = [note.id.decode() for note in findings.notes if note.what == b"file"]
    shown = [name.encode("unicode_escape").decode() for name in ODD_NAMES]
    shown = [name.replace("\\u200c", r"\xe2\x80\x8c") for name in shown]
    assert sorted(noted) == sorted(shown)
    assert any("contains '.git'" in note.text.decode() for note in findings.notes)


def test_running_export_is_not_taken_for_damage(store: Exported) -> None:
    a_wrong_ref(store)
    opened = store.git_store()
    held = Path(opened.directory.join(b"lock").decode())
    with opened.locked():
        assert held.is_symlink()
        with pytest.raises(error.StateError, match="an export changes the git store"):
            verify.run(opened)
    assert len(lines(verify.run(opened))) == 1


def test_progress_is_shown(store: Exported) -> None:
    options = ["--debug", "--config", "progress.debug=yes", "git::verify", "--full"]
    shown = store.hg(*options)
    for topic in ("checking packs", "checking objects", "comparing ids"):
        assert f"{topic}: " in shown


def test_json_has_all_that_text_has(store: Exported) -> None:
    line = a_wrong_ref(store)
    done = store.run("git::verify", "-T", "json")
    assert done.code == 1
    (said,) = json.loads(done.out)
    (difference,) = said["differences"]
    text = "{what} {id}: found {found}, expected {expected}".format(**difference)
    assert re.fullmatch(line, text)
    assert said["changesets"] == 10
    docket = Docket.parse(store.docket_path.read_bytes())
    assert said["packs"] == len(docket.packs) >= 3
    assert said["full"] is False


def test_git_gc_is_no_fault_and_loses_nothing(store: Exported) -> None:
    """Heads that no ref leads to are loose objects after it, in an older git."""
    store.hg("update", "-q", "1")
    store.commit_nothing("head")
    store.hg("update", "-q", "desc(last)")
    store.commit_nothing("tip")
    store.hg("git::export")
    git(store.git_dir, "gc", "-q")
    store.hg("git::export")
    found = verified(store, full=True)
    assert all(difference.what == b"object" for difference in found.differences)
    assert lines(repair(store.git_store())[1]) == []
    assert lines(verified(store, full=True)) == []
