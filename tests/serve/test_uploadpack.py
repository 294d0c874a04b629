"""Settings of git for clients of hgweb: all that upload-pack reads are amalgam's."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib.environment import executable, git
from testlib.exported import Exported
from testlib.webserver import ON, serving

pytestmark = pytest.mark.slow


#: What upload-pack of git 2.55.0 reads of the configuration of a repository, as in
#: upload-pack.c, serve.c, ls-refs.c, refs.c, and the servers' parts of bundle-uri.c and
#: promisor-remote.c. Not here: ``bundle.*``, of which nothing is sent unless
#: advertiseBundleURIs is set; other keys of ``promisor.*``, likewise.
READ = {
    "core.precomposeunicode",
    "lsrefs.unborn",
    "promisor.advertise",
    "transfer.advertiseobjectinfo",
    "transfer.advertisesid",
    "transfer.hiderefs",
    "uploadpack.advertisebundleuris",
    "uploadpack.allowanysha1inwant",
    "uploadpack.allowfilter",
    "uploadpack.allowreachablesha1inwant",
    "uploadpack.allowrefinwant",
    "uploadpack.allowsidebandall",
    "uploadpack.allowtipsha1inwant",
    "uploadpack.keepalive",
    "uploadpackfilter.allow",
    "uploadpackfilter.tree.maxdepth",
} | {
    f"uploadpackfilter.{kind}.allow"
    for kind in (
        *("auto", "blob:limit", "blob:none", "combine", "object:type"),
        *("sparse:oid", "tree"),
    )
}
#: The other keys, each with a test. ``transfer.hideRefs`` undoes the first; the second
#: is refused, in serve/test_admission.py; git takes the last from no repository.
OTHERS = {
    "uploadpack.hiderefs",
    "uploadpack.blobpackfileuri",
    "uploadpack.packobjectshook",
}


def test_each_key_that_upload_pack_reads_is_set(
    exported_template: Exported, tmp_path: Path
) -> None:
    program, noted = tmp_path / "git-that-notes", tmp_path / "noted"
    executable(
        program,
        f'#!/bin/sh\ncase $1 in upload-pack) env > {noted};; esac\nexec git "$@"\n',
    )
    option = f"--config=amalgam.git.program={program}"
    with serving(exported_template.root, *ON, option) as web:
        git(tmp_path, "ls-remote", web.url)
    pairs = (line.partition("=") for line in noted.read_text().splitlines())
    keys = {
        value.lower()
        for name, _equals, value in pairs
        if name.startswith("GIT_CONFIG_KEY_")
    }
    assert not READ - keys
    assert not OTHERS & keys


@pytest.mark.parametrize("key", ["uploadpack.hideRefs", "transfer.hideRefs"])
@pytest.mark.parametrize("hidden", ["refs", "refs/heads", "^refs/heads", "HEAD", ""])
def test_refs_are_hidden_by_amalgam_alone(
    store: Exported, tmp_path: Path, key: str, hidden: str
) -> None:
    with serving(store.root, *ON) as web:
        before = git(tmp_path, "ls-remote", web.url)
        assert b"refs/heads/stable" in before
        store.git("config", "--add", key, hidden)
        assert git(tmp_path, "ls-remote", web.url) == before


def test_hook_of_the_store_is_not_run(store: Exported, tmp_path: Path) -> None:
    hook = executable(
        tmp_path / "hook", f'#!/bin/sh\ntouch {tmp_path}/run\nexec "$@"\n'
    )
    store.git("config", "uploadpack.packObjectsHook", str(hook))
    with serving(store.root, *ON) as web:
        git(tmp_path, "clone", "-q", web.url, "clone")
    assert not (tmp_path / "run").exists()
