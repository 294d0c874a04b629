"""What hgweb's pages show of git: how to clone, and commits of changesets."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from testlib.bundled import Bundled
from testlib.environment import captured
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.webserver import ON, WebServer, serving

pytestmark = pytest.mark.slow

LANDING = {
    "paper": "shortlog",
    "coal": "shortlog",
    "gitweb": "summary",
    "monoblue": "summary",
    "spartan": "shortlog",
}
HOSTILE = "x <script>&'\"$(id)`;\\ %41\u20ac"
COMMAND = re.compile(r"git clone [^<\n]*")


@pytest.fixture(scope="module")
def web(
    exported_template: Exported,
    bundled_template: Bundled,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[WebServer]:
    root = tmp_path_factory.mktemp("pages")
    shutil.copytree(exported_template.root, root / HOSTILE, symlinks=True)
    shutil.copytree(bundled_template.root, root / "bundled", symlinks=True)
    (root / "web.conf").write_text(f"[paths]\nin = {root}/*\n[web]\ncache = no\n")
    with serving(root, "--web-conf=web.conf", *ON) as server:
        yield server


def page(web: WebServer, path: str) -> str:
    status, _headers, body = web.ask(path)
    assert status == 200, body
    return body.decode()


def commands(text: str) -> list[str]:
    """Return what a user would copy from a page."""
    return [html.unescape(found) for found in COMMAND.findall(text)]


@pytest.mark.parametrize("style", LANDING)
def test_landing_page_says_how_to_clone(
    web: WebServer, style: str, tmp_path: Path
) -> None:
    url = f"http://x/in/{quote(HOSTILE)}"
    text = page(web, f"in/{quote(HOSTILE)}/{LANDING[style]}?style={style}")
    assert commands(text) == [f"git clone {url}"]
    assert "<script>&" not in text
    # a shell takes it as it is
    command = commands(text)[0].replace("http://x/", web.url)
    done = captured(["sh", "-c", f"{command} clone"], tmp_path)
    assert not done.returncode, done.stderr
    assert (tmp_path / "clone" / "file0").exists()


@pytest.mark.parametrize("style", LANDING)
def test_bundles_are_named_where_there_are_some(web: WebServer, style: str) -> None:
    url = "http://x/in/bundled"
    text = page(web, f"in/bundled/{LANDING[style]}?style={style}")
    bundles = f"git clone --bundle-uri={url}/amalgam/bundles/bundles.list {url}"
    assert commands(text) == [f"git clone {url}", bundles]


@pytest.mark.parametrize("style", LANDING)
def test_changeset_page_shows_the_commit(
    web: WebServer, exported_template: Exported, style: str
) -> None:
    for rev in ("tip", "3"):
        _node, oid = exported_template.ids(rev)
        text = page(web, f"in/{quote(HOSTILE)}/rev/{rev}?style={style}")
        assert text.count(f">{oid}<") == 1


def test_json_has_commits_wherever_it_has_changesets(
    web: WebServer, exported_template: Exported
) -> None:
    listed = exported_template.hg("log", "-T", "{node} {gitnode}\n").splitlines()
    oids = {line.split()[0]: line.split()[1] for line in listed}

    def found(path: str) -> list[tuple[str, str]]:
        text = page(web, f"in/{quote(HOSTILE)}/{path}")
        pairs: list[tuple[str, str]] = []

        def keep(item: dict[str, Any]) -> dict[str, Any]:
            if "gitnode" in item:
                pairs.append((item["node"], item["gitnode"]))
            return item

        json.loads(text, object_hook=keep)
        return pairs

    for path, count in {
        "json-rev/tip": 1,
        "json-log": len(oids),
        "json-shortlog": len(oids),
        "json-graph": len(oids),
        "json-log/tip/last": 1,
        "json-file/tip/last": 1,
        "json-diff/tip/last": 1,
        "json-comparison/tip/last": 1,
        "json-annotate/tip/last": 1,
        "json-tags": 1,
        "json-bookmarks": 2,
        "json-branches": 2,
        "json-log?rev=fix": None,
    }.items():
        pairs = found(path)
        assert pairs, path
        assert count in (None, len(pairs)), path
        assert all(oids[node] == oid for node, oid in pairs), path


@pytest.mark.parametrize(
    "rules",
    [
        ["web.allow-pull=no"],
        ["amalgam.git.serve=no"],
        ["narrowacl.default.includes=dir"],
        ["amalgam.git.exprot=public"],
    ],
)
def test_who_may_not_fetch_sees_none_of_it(
    exported_template: Exported, rules: list[str]
) -> None:
    options = [f"--config={rule}" for rule in rules]
    _node, oid = exported_template.ids("tip")
    with serving(exported_template.root, *ON, *options) as web:
        for style, landing in LANDING.items():
            assert not commands(page(web, f"{landing}?style={style}"))
            assert oid not in page(web, f"rev/tip?style={style}")
        found = json.loads(page(web, "json-rev/tip"))
        assert found.get("gitnode") is None


def test_page_that_a_style_lacks_is_answered_as_by_mercurial(
    exported_template: Exported,
) -> None:
    """The page of the error has the keywords already."""
    with serving(exported_template.root) as stock:
        expected = stock.ask("summary?style=paper")
    with serving(exported_template.root, *ON) as web:
        answered = web.ask("summary?style=paper")
    assert answered[0] == expected[0] == 403
    assert answered[2].count(b"<html") == expected[2].count(b"<html")


def test_base_url_is_respected(exported_template: Exported) -> None:
    base = "--config=web.baseurl=https://hg.example.org:8443/"
    with serving(exported_template.root, *ON, base, "--prefix=/some where") as web:
        text = page(web, "some%20where/shortlog")
        assert commands(text) == ["git clone https://hg.example.org:8443/some%20where"]


@pytest.mark.parametrize(
    "host", ["x;id", "x'", '"><script>', "$(id)", "-x y", "x" * 300]
)
def test_host_that_is_no_name_is_not_shown(
    exported_template: Exported, host: str
) -> None:
    with serving(exported_template.root, *ON) as web:
        head = f"GET /shortlog HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        said = web.exchange(head.encode()).decode()
        assert said.startswith("HTTP/1.1 200 ")
        assert not commands(said)
        assert "<script>" not in said


def test_changeset_that_is_not_exported_shows_no_commit(
    tmp_path: Path, server: HgServer
) -> None:
    store = Exported.init(tmp_path / "repo", server)
    store.commit_nothing("one")
    with serving(store.root, *ON) as web:
        assert "git" not in page(web, "rev/tip").partition("changesetEntry")[2]
        assert json.loads(page(web, "json-rev/tip"))["gitnode"] is None
        tag = web.ask("rev/tip")[1]["ETag"]
        assert web.ask("rev/tip", If_None_Match=tag)[0] == 304
        store.hg("git::export")
        later = time.time() + 10  # tags count in seconds
        os.utime(store.docket_path, (later, later))
        status, _headers, body = web.ask("rev/tip", If_None_Match=tag)
        assert status == 200
        assert store.ids("tip")[1].encode() in body


def test_pages_do_without_a_store_that_cannot_be_read(store: Exported) -> None:
    store.packs_dir.rename(store.packs_dir.with_name("kept"))
    os.mkfifo(store.packs_dir)
    with serving(store.root, *ON) as web:
        assert json.loads(page(web, "json-rev/tip"))["gitnode"] is None
        assert "changesetEntry" in page(web, "rev/tip")


def test_templates_of_others_have_the_keywords(
    exported_template: Exported, tmp_path: Path
) -> None:
    style = tmp_path / "mine"
    style.mkdir()
    (style / "map").write_text(
        "default = 'shortlog'\nmimetype = 'text/plain'\n"
        "shortlog = '{gitclone}|{gitbundles}\\n{entries%line}'\n"
        "line = '{node} {gitnode}\\n'\nerror = '{error}'\n"
    )
    options = (f"--config=web.templates={tmp_path}", "--config=web.style=mine")
    with serving(exported_template.root, *ON, *options) as web:
        lines = page(web, "").splitlines()
        assert lines[0] == "http://x/|"
        expected = exported_template.hg("log", "-T", "{node} {gitnode}\n")
        assert lines[1:] == expected.splitlines()
