"""docs/json.rst has the keys of ``-T json``, with their types, and no others."""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import docutils.core
import pytest
from docutils import nodes
from mercurial import pycompat
from testlib import mirrors
from testlib.bundled import Bundled
from testlib.environment import ROOT, git
from testlib.exported import Exported
from testlib.small import run_hg

from hgext3rd.amalgam import locking, perf
from hgext3rd.amalgam.commands import table
from hgext3rd.amalgam.gitstore.export import warnings
from hgext3rd.amalgam.index import decision

PAGE = (ROOT / "docs" / "json.rst").read_text()
PERF = "hg perf::amalgam-*"
ESTIMATE = "hg git::export --estimate"
THREE = "perf.run-limits=0.0-3"  # fewer samples give no verdict
NAME = b"a\\.git\xff\\.git"
#: An extension that finds the repository damaged after an export.
DAMAGE = """
from mercurial import error
from hgext3rd.amalgam.gitstore.export import warnings

def damaged(*_args, **_options):
    raise error.StorageError(b"as if damaged")

warnings.ExportWarnings.of = damaged
"""

Object = dict[str, Any]


class Key(NamedTuple):
    """A row of a table of the page."""

    type: str
    values: str
    absent: str


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _is(kind: type) -> Callable[[object], bool]:
    return lambda value: type(value) is kind


TYPES = {
    "boolean": _is(bool),
    "integer": _is(int),
    "number": _is_number,
    "string": _is(str),
    "object": _is(dict),
    "list of numbers": _list_of(_is_number),
    "list of objects": _list_of(_is(dict)),
    "list of strings": _list_of(_is(str)),
}


@functools.cache
def sections() -> dict[str, dict[str, Key]]:
    """Return the keys of each command."""
    document = docutils.core.publish_doctree(PAGE)
    found = {}
    for section in document.findall(nodes.section):
        title = section[0].astext()
        keys = found[title] = dict[str, Key]()
        for row in section.findall(nodes.row):
            name, *cells = map(_source, row)
            if name != "key":
                keys[name.strip("`")] = Key(*cells, *[""] * (3 - len(cells)))
    return found


def _source(entry: nodes.Node) -> str:
    """Return a cell as it is written, in one line."""
    paragraphs = entry.findall(nodes.paragraph)
    return " ".join(" ".join(it.rawsource.split()) for it in paragraphs)


def levels(
    rows: list[Object], keys: dict[str, Key], prefix: str = ""
) -> Iterator[tuple[str, Object]]:
    """Yield each object with the prefix of its keys on the page."""
    for row in rows:
        yield prefix, row
        for name, value in row.items():
            key = keys.get(prefix + name)
            if key and key.type == "list of objects":
                yield from levels(value, keys, f"{prefix}{name}[].")


def compare(title: str, rows: list[Object]) -> None:
    """Assert that the page has what ``rows`` have, and that they have all of it."""
    keys = sections()[title]
    seen: dict[str, int] = defaultdict(int)
    objects: dict[str, int] = defaultdict(int)
    for prefix, row in levels(rows, keys):
        objects[prefix] += 1
        for name, value in row.items():
            seen[prefix + name] += 1
            key = keys.get(prefix + name)
            assert key, f"not on the page: {prefix}{name}"
            assert TYPES[key.type](value), (prefix + name, value)
            allowed = re.findall(r"``([\w-]+)``", key.values)
            if not re.sub(r"``[\w-]+``|, ", "", key.values) and allowed:
                assert value in allowed, (prefix + name, value)
    assert not keys.keys() - seen.keys()
    for name, key in keys.items():
        prefix = re.sub(r"\w+$", "", name) if "[]" in name else ""
        is_always = seen[name] == objects[prefix]
        assert is_always == (not key.absent), name


def said(store: Exported | Bundled, *args: str) -> list[Object]:
    """Return the objects that a command prints."""
    found: list[Object] = json.loads(store.run(*args, "-T", "json").out)
    return found


def test_page_has_each_command_that_takes_a_template() -> None:
    with_template = {
        "hg " + pycompat.sysstr(name)
        for name, (_func, options, *_rest) in table.cmdtable.items()
        if any(option[1] == b"template" for option in options)
    }
    assert sections().keys() == {*with_template, ESTIMATE, PERF}
    of_perf = [name for name in perf.cmdtable if not name.startswith(b"debug")]
    assert of_perf
    assert all(name.startswith(b"perf::amalgam-") for name in of_perf)


@pytest.mark.parametrize(
    "title", [title for title in sections() if title not in (ESTIMATE, PERF)]
)
def test_help_explains_the_keys_of_the_first_level(title: str) -> None:
    func = table.cmdtable[title.removeprefix("hg ").encode()][0]
    text = pycompat.sysstr(pycompat.getdoc(func)).partition("Template keywords")[2]
    explained = re.findall(r"(?m)^ *:(\w+):", text)
    assert sorted(explained) == [key for key in sections()[title] if "[]" not in key]
    below = {key.partition("[].")[2] for key in sections()[title] if "[]" in key}
    for key in below:
        assert f"``{key}``" in text, key


@pytest.mark.parametrize(
    ("title", "key", "values"),
    [
        ("hg git::export", "different[].kind", warnings.DifferenceKind),
        ("hg git::export", "left_out[].reason", warnings.LeftOutReason),
        ("hg admin::amalgam", "indexes[].reason", decision.Reason),
        ("hg admin::amalgam", "lock", locking.LockState),
    ],
)
def test_values_are_those_of_the_source(title: str, key: str, values: Any) -> None:
    named = set(re.findall(r"``([\w-]+)``", sections()[title][key].values))
    assert named - {"free"} == {it.value for it in values}


def test_keys_of_estimate(exported_template: Exported) -> None:
    rows = said(exported_template, "git::export", "--estimate")
    compare(ESTIMATE, rows)
    text = pycompat.sysstr(pycompat.getdoc(table.cmdtable[b"git::export"][0]))
    explained = text.partition("With --estimate: ")[2].partition("Returns")[0]
    assert set(rows[0]) == set(re.findall(r"``(\w+)``", explained))


def test_keys_of_clone_command(exported_template: Exported) -> None:
    served = ("--config", "amalgam.git.serve=yes", "http://h.example/r")
    rows = [
        *said(exported_template, "git::clone-command"),
        *said(exported_template, "git::clone-command", *served),
    ]
    compare("hg git::clone-command", rows)


def test_keys_of_push(store: Exported, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    remote = str(tmp_path / "remote.git")
    rows = said(store, "git::push", remote)
    rows += said(store, "git::push", remote + ".missing")
    compare("hg git::push", rows)
    assert [row["status"] for row in rows] == ["equal", "failed"]


def test_keys_of_follow(store: Exported, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "leader.git")
    for name in ("leader", "missing"):
        place = tmp_path / f"{name}.git"
        options = ("--config", f"amalgam.follow.{name}={place}")
        rows = said(store, "git::follow", *options)
        compare("hg git::follow", rows)
        assert [bool(row["reason"]) for row in rows] == [name == "missing"]


def test_keys_of_survey(exported_template: Exported, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "mirror")
    mirror = tmp_path / "mirror"
    tree = mirrors.write_object(mirror, "tree", b"")
    who = b"A <a@x> 1 +0000"
    signed = b"tree %s\nauthor %s\ncommitter %s\n" % (tree.encode(), who, who)
    oid = mirrors.write_object(mirror, "commit", signed + b"gpgsig x\n\nmessage\n")
    git(mirror, "update-ref", "refs/heads/signed", oid)
    rows = [
        *said(exported_template, "git::survey", str(mirror)),
        *said(exported_template, "git::survey", "--commits", str(mirror)),
    ]
    compare("hg git::survey", rows)


@pytest.mark.slow
def test_keys_of_export(store: Exported, tmp_path: Path) -> None:
    rows = said(store, "git::export")
    store.hg("commit", "-qm", "secret", "--secret", "--config", "ui.allowemptycommit=1")
    store.hg("update", "-q", ".^")
    (store.root / NAME.decode(errors="surrogateescape")).touch()
    store.hg("commit", "-qAm", "name")
    rows += said(store, "git::export")
    (group,) = rows[-1]["different"]
    assert group["example"].encode("utf-8", "surrogateescape") == NAME
    rows += said(store, "git::export", "-r", "secret()")
    (tmp_path / "damage.py").write_text(DAMAGE)
    damage = f"extensions.damage={tmp_path}/damage.py"
    command = ["git::export", "-T", "json", "--config", damage]
    rows += json.loads(run_hg(store.root, *command).stdout)
    mirror = tmp_path / "mirror.git"
    made = mirrors.write_map(tmp_path / "map", mirrors.make(store.root, mirror))
    options = ["--adopt", str(mirror), "--map", str(made), "--rebuild"]
    compare("hg git::export", [*rows, *said(store, "git::export", *options)])


def test_keys_of_verify(store: Exported) -> None:
    rows = said(store, "git::verify")
    (store.root / "a" / ".Git").mkdir(parents=True)
    (store.root / "a" / ".Git" / "file").touch()
    store.hg("commit", "-qAm", "name")
    store.hg("git::export", "--metadata")
    store.git("update-ref", "refs/heads/theirs", "refs/heads/default")
    compare("hg git::verify", [*rows, *said(store, "git::verify")])


def test_keys_of_id(store: Exported) -> None:
    node, oid = store.ids("tip")
    asked = said(store, "git::id", node, oid, "xyz")
    compare("hg git::id", asked)
    assert [row["status"] for row in asked] == ["found", "found", "unknown"]


def test_keys_of_bundle(store: Exported, tmp_path: Path) -> None:
    file = str(tmp_path / "bundle")
    rows = said(store, "git::bundle", file)
    assert rows[0]["heads"]
    assert rows[0]["refs"]
    compare("hg git::bundle", [*rows, *said(store, "git::bundle", file, "-r", "0")])


def test_keys_of_admin(published: Bundled) -> None:
    rows = said(published, "admin::amalgam")
    store = Exported(published.root, published._server)
    rows += said(store, "admin::amalgam", "--config", "amalgam.git.refs=nonsense")
    assert (rows[-1]["path"], rows[-1]["served"]) == ("", 0)
    store.git("update-ref", "refs/heads/theirs", "refs/heads/default")
    options = ["--repair", "--config", "amalgam.replicate.x=/missing"]
    options += ["--config", "amalgam.follow.y=/missing"]
    rows += said(store, "admin::amalgam", *options)
    compare("hg admin::amalgam", rows)


@pytest.mark.torture
@pytest.mark.slow
def test_keys_of_perf(store: Exported) -> None:
    command = ["--config", "extensions.hgext3rd.amalgam.perf=", "-T", "json"]
    command += ["--config", "perf.presleep=0", "--cache=warm"]
    command += ["--config", "perf.run-limits=0.0-1"]

    def measured(name: str, *args: str) -> list[Object]:
        done = run_hg(store.root, name, *command, *args)
        assert done.returncode == 0, done.stderr
        found: list[Object] = json.loads(done.stdout)
        return found

    # an inline index cannot be mapped
    rows = measured("perf::amalgam-index", "-m")
    rows += measured("perf::amalgam-node-lookup", "--lookup=tip")
    rows += measured("perf::amalgam-startup", "root")
    rows += measured("perf::amalgam-startup", "root", "--config", THREE)
    rows += measured("perf::amalgam-export")
    rows += measured("perf::amalgam-bundle", "-t", "git-v2")
    compare(PERF, rows)
