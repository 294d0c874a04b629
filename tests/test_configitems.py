"""How the configuration is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mercurial import error, extensions, ui as uimod

from hgext3rd.amalgam.configitems import GitConfig


@pytest.fixture
def ui() -> Any:
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    extensions.loadall(ui)
    return ui


def test_defaults(ui: Any) -> None:
    assert GitConfig.from_ui(ui) == GitConfig(
        dialect=b"cinnabar",
        export=b"served",
        refs=frozenset({b"bookmarks", b"tips", b"tags"}),
        check_texts=True,
        memory_bytes=192 << 20,
        path=None,
        program=b"git",
    )


@pytest.mark.parametrize("item", [b"git.dialect", b"git.export", b"git.refs"])
def test_value_that_is_not_allowed_is_named_with_those_that_are(
    ui: Any, item: bytes
) -> None:
    ui.setconfig(b"amalgam", item, b"bogus")
    with pytest.raises(error.ConfigError) as caught:
        GitConfig.from_ui(ui)
    assert caught.value.message == b"config amalgam.%s is 'bogus'" % item
    assert caught.value.hint.startswith(b"allowed: ")


@pytest.mark.parametrize("value", [b"0", b"-5 MB", b"1000 kb"])
def test_memory_that_is_too_little_is_refused(ui: Any, value: bytes) -> None:
    ui.setconfig(b"amalgam", b"git.memory", value)
    with pytest.raises(error.ConfigError) as caught:
        GitConfig.from_ui(ui)
    assert caught.value.message == b"config amalgam.git.memory is '%s'" % value
    assert caught.value.hint == b"a size such as 192 MB, at least 1.00 MB"


def test_memory_that_is_no_size_is_refused(ui: Any) -> None:
    ui.setconfig(b"amalgam", b"git.memory", b"plenty")
    with pytest.raises(error.ConfigError) as caught:
        GitConfig.from_ui(ui)
    assert b"amalgam.git.memory is not a byte quantity" in caught.value.message


def test_relative_path_starts_where_it_is_written(ui: Any, tmp_path: Path) -> None:
    hgrc = tmp_path / "hgrc"
    hgrc.write_text("[amalgam]\ngit.path = stores\ngit.program = mygit\n")
    ui.readconfig(bytes(hgrc), trust=True)
    config = GitConfig.from_ui(ui)
    assert config.path == bytes(tmp_path / "stores")
    assert config.program == b"mygit"


def test_program_is_not_read_from_a_file_of_others(ui: Any) -> None:
    untrusted = uimod.ui.load()
    untrusted._ucfg.parse(b"hgrc", b"[amalgam]\ngit.program = evil\n")
    untrusted.fixconfig()
    assert untrusted.config(b"amalgam", b"git.program", untrusted=True) == b"evil"
    assert GitConfig.from_ui(untrusted).program == b"git"


def test_what_is_exported_is_the_choice_of_an_owner_who_is_not_trusted(ui: Any) -> None:
    ui._ucfg.parse(b"hgrc", b"[amalgam]\ngit.export = public\ngit.refs = tips\n")
    config = GitConfig.from_ui(ui)
    assert config.export == b"public"
    assert config.refs == {b"tips"}


def test_path_in_a_file_of_others_is_an_error(ui: Any) -> None:
    ui._ucfg.parse(b"hgrc", b"[amalgam]\ngit.path = elsewhere\n")
    with pytest.raises(error.ConfigError) as caught:
        GitConfig.from_ui(ui)
    assert b"git.path is set in a file that is not trusted" in caught.value.message
    assert caught.value.hint == b"see 'hg help config.trusted'"


def test_empty_path_is_none(ui: Any) -> None:
    ui.setconfig(b"amalgam", b"git.path", b"", b"here:1")
    assert GitConfig.from_ui(ui).path is None
