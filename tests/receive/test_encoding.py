"""What the server tells git: UTF-8, whatever encoding Mercurial and hooks have."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT
from testlib.pushing import pushable

pytestmark = pytest.mark.slow

CAFE = "caf\xe9"
HOOK = """\
from mercurial import error
def say(ui, **details):
    ui.warn(b'warned of %s\\n')
    raise error.Abort(b'no %s', hint=b'not even %s')
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("encoding", "printed", "shown"),
    [
        ("latin-1", "latin-1", CAFE),
        ("utf-8", "utf-8", CAFE),
        ("utf-8", "latin-1", "caf\ufffd"),
        ("ascii", "utf-8", CAFE),
        ("ascii", "latin-1", "caf\ufffd"),
    ],
)
def test_hooks_are_relayed_in_utf8(
    tmp_path: Path, encoding: str, printed: str, shown: str
) -> None:
    text = CAFE.encode(printed)
    (tmp_path / "words").write_bytes(text + b"\n")
    escaped = "".join(f"\\x{byte:02x}" for byte in text)
    (tmp_path / "hook.py").write_text(HOOK % (escaped, escaped, escaped))
    hgrc = f"[hooks]\npretxnchangegroup.a = cat {tmp_path}/words\n"
    hgrc += f"pretxnchangegroup.b = python:{tmp_path}/hook.py:say\n"
    environment = {**ENVIRONMENT, "HGENCODING": encoding}
    with pushable(tmp_path, hgrc=hgrc, environment=environment) as server:
        clone = server.clone()
        clone.commit("new")
        said = clone.refused("HEAD:default")  # which decodes it
        assert f"remote: {shown} " in said
        assert f"remote: warned of {shown} " in said
        assert f"default (no {shown} (not even {shown}))" in said
        server.check()


def test_long_words_of_a_hook_are_cut_between_characters(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("x" + "\xe9" * 40_000 + "\n", encoding="utf-8")
    (tmp_path / "hook.py").write_text(HOOK % ("", "x" + "\\xc3\\xa9" * 1000, ""))
    hgrc = f"[hooks]\npretxnchangegroup.a = cat {tmp_path}/words\n"
    hgrc += f"pretxnchangegroup.b = python:{tmp_path}/hook.py:say\n"
    environment = {**ENVIRONMENT, "HGENCODING": "utf-8"}
    with pushable(tmp_path, hgrc=hgrc, environment=environment) as server:
        clone = server.clone()
        clone.commit("new")
        said = clone.refused("HEAD:default")
        assert said.count("\xe9") > 5_000
        assert "\ufffd" not in said


def test_message_of_the_operator_is_relayed_in_utf8(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "HGENCODING": "latin-1"}
    option = "--config=amalgam.git.push=locked"
    message = f"[amalgam]\ngit.push-message = {CAFE}\n"
    (tmp_path / "message.rc").write_text(message, encoding="latin-1")
    hgrc = f"%include {tmp_path}/message.rc\n"
    with pushable(tmp_path, option, hgrc=hgrc, environment=environment) as server:
        clone = server.clone()
        clone.commit("new")
        done = clone.push("HEAD:default")
        assert f"remote: {CAFE}\n" in done.stderr.decode()


def test_option_that_is_no_utf8_is_refused_in_utf8(tmp_path: Path) -> None:
    with pushable(tmp_path) as server:
        clone = server.clone()
        before = clone.head()
        new = clone.commit("new")
        options = (b"branc\xe9=" + "\xe9".encode() * 80,)
        answer = server.push_raw(clone, before, new, "refs/heads/default", options)
        shown = "unknown push option 'branc\ufffd' (did you mean 'branch'?)"
        assert shown in answer.decode()
