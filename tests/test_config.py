"""How the configuration is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mercurial import error, extensions, ui as uimod

from hgext3rd.amalgam import config
from hgext3rd.amalgam.config import (
    BundlesConfig,
    CompressionConfig,
    GitConfig,
    IndexConfig,
    mistakes,
    wants_node_map,
)
from hgext3rd.amalgam.configitems import configtable


@pytest.fixture
def ui(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a ui whose warnings are in ``warned``, none of them given before."""
    monkeypatch.setattr(config, "_warned", set())
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    extensions.loadall(ui)
    ui.warned = []
    monkeypatch.setattr(type(ui), "warn", lambda _self, text: ui.warned.append(text))
    return ui


def test_defaults(ui: Any) -> None:
    assert GitConfig.from_ui(ui) == GitConfig(
        dialect=b"cinnabar",
        export=b"served",
        export_on_change=False,
        refs=(b"bookmarks", b"tips", b"tags"),
        check_texts=True,
        memory_bytes=192 << 20,
        max_pull_bytes=100 << 30,
        max_pull_commits=5_000_000,
        max_pull_file_bytes=2 << 30,
        path=None,
        program=b"git",
        hggit_files=True,
    )


REFS = b"bookmarks, tips, heads or tags"
DIALECTS = b"cinnabar or hggit"


@pytest.mark.parametrize(
    ("item", "value", "expected", "hint"),
    [
        (b"git.dialect", b"cinabar", DIALECTS, b"did you mean 'cinnabar'?"),
        (b"git.export", b"pubic", b"served or public", b"did you mean 'public'?"),
        (b"git.export", b"nothing", b"served or public", None),
        (b"git.export", b"", b"served or public", None),
        (b"git.refs", b"tips, TAGS", REFS, b"did you mean 'tags'?"),
        (b"git.check-texts", b"perhaps", b"yes or no", None),
        *[
            (b"git.memory", it, b"a size of at least 1.00 MB, such as 192 MB", None)
            for it in (b"plenty", b"", b"-5 MB", b"1000 kb")
        ],
        (b"git.program", b"", b"the name or path of a program", None),
    ],
)
def test_mistake_in_what_leaves_is_an_error(
    ui: Any, item: bytes, value: bytes, expected: bytes, hint: bytes | None
) -> None:
    ui.setconfig(b"amalgam", item, value)
    with pytest.raises(error.ConfigError) as caught:
        GitConfig.from_ui(ui)
    shown = value.split(b", ")[-1]
    assert caught.value.message == (
        b"invalid value '%s' for amalgam.%s (expected %s)" % (shown, item, expected)
    )
    assert caught.value.hint == hint
    assert [mistake.message for mistake in mistakes(ui)] == [caught.value.message]
    assert not ui.warned


@pytest.mark.parametrize(
    ("item", "meant"),
    [
        (b"git.exports", b"git.export"),
        (b"git.Export", b"git.export"),
        (b"export", b"git.export"),
        (b"gti.export", b"git.export"),
        (b"git.brightness", b""),
    ],
)
def test_unknown_item_about_what_leaves_is_an_error(
    ui: Any, item: bytes, meant: bytes
) -> None:
    ui.setconfig(b"amalgam", item, b"public")
    with pytest.raises(error.ConfigError) as caught:
        GitConfig.from_ui(ui)
    assert caught.value.message == b"unknown config item amalgam.%s" % item
    if meant:
        assert caught.value.hint == b"did you mean amalgam.%s?" % meant
    else:
        assert caught.value.hint == b"see 'hg help config.amalgam' for all items"
    BundlesConfig.check(ui)
    assert [mistake.message for mistake in mistakes(ui)] == [caught.value.message]


def test_file_that_is_not_trusted_makes_mistakes_too(ui: Any) -> None:
    ui._ucfg.parse(b"hgrc", b"[amalgam]\ngit.exports = public\ngit.refs = tip\n")
    with pytest.raises(error.ConfigError, match="unknown config item"):
        GitConfig.from_ui(ui)
    assert [mistake.message for mistake in mistakes(ui)] == [
        b"unknown config item amalgam.git.exports",
        b"invalid value 'tip' for amalgam.git.refs "
        b"(expected bookmarks, tips, heads or tags)",
    ]


def test_unknown_item_of_no_group_is_named_and_stops_nothing(ui: Any) -> None:
    ui.setconfig(b"amalgam", b"quux", b"1")
    ui.setconfig(b"amalgam", b"colour.serve", b"1")
    GitConfig.from_ui(ui)
    BundlesConfig.check(ui)
    assert [mistake.message for mistake in mistakes(ui)] == [
        b"unknown config item amalgam.quux",
        b"unknown config item amalgam.colour.serve",
    ]


def set_wrong(ui: Any, name: bytes, value: bytes, expected: bytes) -> bytes:
    """Set an item, which is unknown if nothing is expected; return what is said."""
    section, _dot, item = name.partition(b".")
    ui.setconfig(section, item, value)
    if not expected:
        return b"unknown config item " + name
    return b"invalid value '%s' for %s (expected %s)" % (value, name, expected)


URL = b"http://..., https://... or s3://BUCKET/PREFIX"


@pytest.mark.parametrize(
    ("name", "value", "expected", "hint"),
    [
        *[
            (b"amalgam.bundles.retention", it, b"a number of seconds", b"")
            for it in (b"a week", b"-1")
        ],
        (b"amalgam.bundles.url", b"ftp://x", URL, b""),
        (b"amalgam.bundles.external", b"nope", b"yes or no", b""),
        (b"amalgam.bundles.uri", b"http://x", b"", b"amalgam.bundles.url"),
        (
            b"clone-bundles.git.formats",
            b"git-v3",
            b"git-v2 or cinnabar-v1",
            b"'git-v2'",
        ),
        (b"clone-bundles.git.format", b"git-v2", b"", b"clone-bundles.git.formats"),
    ],
)
def test_mistake_about_bundles_is_warned_of_once_and_stops_who_publishes(
    ui: Any, name: bytes, value: bytes, expected: bytes, hint: bytes | None
) -> None:
    nothing = BundlesConfig.from_ui(ui)
    text = set_wrong(ui, name, value, expected)
    hint = b"did you mean %s?" % hint if hint else None
    for _time in range(2):
        # what may leave is decided as it is safe
        assert BundlesConfig.from_ui(ui) == nothing._replace(
            external=False if name == b"amalgam.bundles.external" else None
        )
    assert ui.warned == [b"warning: %s\n" % text] + ([b"(%s)\n" % hint] if hint else [])
    with pytest.raises(error.ConfigError) as caught:
        BundlesConfig.check(ui)
    assert (caught.value.message, caught.value.hint) == (text, hint)
    assert [mistake.message for mistake in mistakes(ui)] == [text]
    GitConfig.from_ui(ui)


@pytest.mark.parametrize(
    ("item", "value", "expected"),
    [
        (b"level", b"23", b"a number from 1 to 22"),
        (b"level", b"high", b"a number from 1 to 22"),
        (b"threads", b"-1", b"a number from 0 to 256"),
        (b"window", b"129 MB", b"a size from 1 MB to 128 MB"),
        (b"window", b"1 kB", b"a size from 1 MB to 128 MB"),
    ],
)
def test_mistake_about_compression_is_warned_of_once_and_stops_who_publishes(
    ui: Any, item: bytes, value: bytes, expected: bytes
) -> None:
    usual = CompressionConfig.from_ui(ui)
    text = set_wrong(ui, b"amalgam.bundles." + item, value, expected)
    for _time in range(2):
        assert CompressionConfig.from_ui(ui) == usual
    assert ui.warned == [b"warning: %s\n" % text]
    with pytest.raises(error.ConfigError) as caught:
        CompressionConfig.check(ui)
    assert caught.value.message == text
    assert [mistake.message for mistake in mistakes(ui)] == [text]


def test_directory_of_bundles_in_a_file_of_others_is_not_used(ui: Any) -> None:
    ui._ucfg.parse(b"hgrc", b"[amalgam]\nbundles.directory = elsewhere\n")
    assert BundlesConfig.from_ui(ui).directory is None
    said = b"amalgam.bundles.directory is set in a file that is not trusted"
    assert ui.warned == [
        b"warning: %s\n" % said,
        b"(see 'hg help config.trusted')\n",
    ]
    with pytest.raises(error.ConfigError):
        BundlesConfig.check(ui)


SIZE = b"a size such as 1 MB; 0 maps every index"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (b"amalgam.index.prefault", b"willned", b"none, willneed or populate"),
        (b"experimental.mmapindex", b"maybe", b"yes or no"),
        (b"experimental.mmapindexthreshold", b"much", SIZE),
        (b"experimental.mmapindexthreshold", b"-1", SIZE),
        (b"amalgam.index.prefetch", b"none", b""),
    ],
)
def test_mistake_about_speed_is_warned_of_once(
    ui: Any, name: bytes, value: bytes, expected: bytes
) -> None:
    nothing = IndexConfig.from_ui(ui, 5)
    text = set_wrong(ui, name, value, expected)
    for _time in range(2):
        assert IndexConfig.from_ui(ui, 5) == nothing
    assert ui.warned[0] == b"warning: %s\n" % text
    assert sum(line.startswith(b"warning:") for line in ui.warned) == 1
    assert [mistake.message for mistake in mistakes(ui)] == [text]


def test_threshold_of_mercurial_that_is_no_size_is_its_default(ui: Any) -> None:
    ui.setconfig(b"experimental", b"mmapindex", b"yes")
    ui.setconfig(b"storage", b"revlog.mmap.index:size-threshold", b"lots")
    assert IndexConfig.from_ui(ui, None).threshold_bytes == 1 << 20
    assert len(ui.warned) == 1
    assert len(mistakes(ui)) == 1


def test_node_map_that_is_neither_on_nor_off_is_on(ui: Any) -> None:
    ui._ucfg.parse(b"hgrc", b"[amalgam]\nindex.node-map = fast\n")
    assert wants_node_map(ui)
    assert wants_node_map(ui)
    (said,) = ui.warned
    assert b"invalid value 'fast' for amalgam.index.node-map" in said
    assert len(mistakes(ui)) == 1


def test_value_does_not_reach_the_terminal_as_it_is(ui: Any) -> None:
    ui.setconfig(b"amalgam", b"index.prefault", b"\x1b[2J" + b"x" * 1000)
    IndexConfig.from_ui(ui, None)
    assert b"\x1b" not in ui.warned[0]
    assert len(ui.warned[0]) < 200


def test_no_mistake_where_nothing_is_set(ui: Any) -> None:
    assert mistakes(ui) == []
    expected = BundlesConfig((), None, b"", b"", 0, 7 * 86400, None)
    assert BundlesConfig.from_ui(ui) == expected
    BundlesConfig.check(ui)
    assert not ui.warned


def test_a_wrong_value_of_every_item_is_found(ui: Any) -> None:
    for section, items in configtable.items():
        for item in items:
            if item in (b"git.path", b"bundles.directory", b"serve.run-directory"):
                continue  # any path may be right
            if item == b"git.push-message" or item.startswith(b"replicate"):
                continue
            wrong = b"" if item == b"git.program" else b"?"
            with ui.configoverride({(section, item): wrong}):
                (mistake,) = mistakes(ui)
                assert b"%s.%s" % (section, item) in mistake.message


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
    assert config.refs == (b"tips",)


def test_path_in_a_file_of_others_is_an_error(ui: Any) -> None:
    ui._ucfg.parse(b"hgrc", b"[amalgam]\ngit.path = elsewhere\n")
    with pytest.raises(error.ConfigError) as caught:
        GitConfig.from_ui(ui)
    assert b"git.path is set in a file that is not trusted" in caught.value.message
    assert caught.value.hint == b"see 'hg help config.trusted'"


def test_empty_path_is_none(ui: Any) -> None:
    ui.setconfig(b"amalgam", b"git.path", b"", b"here:1")
    assert GitConfig.from_ui(ui).path is None
