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
    configtable,
    mistakes,
    wants_node_map,
)


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
        path=None,
        program=b"git",
    )


@pytest.mark.parametrize(
    ("item", "value", "expected", "hint"),
    [
        (b"git.dialect", b"cinabar", b"cinnabar", b"did you mean 'cinnabar'?"),
        (b"git.export", b"pubic", b"served or public", b"did you mean 'public'?"),
        (b"git.export", b"nothing", b"served or public", None),
        (b"git.export", b"", b"served or public", None),
        (
            b"git.refs",
            b"tips, TAGS",
            b"bookmarks, tips, heads or tags",
            b"did you mean 'tags'?",
        ),
        (b"git.check-texts", b"perhaps", b"yes or no", None),
        (
            b"git.memory",
            b"plenty",
            b"a size of at least 1.00 MB, such as 192 MB",
            None,
        ),
        (b"git.memory", b"", b"a size of at least 1.00 MB, such as 192 MB", None),
        (b"git.memory", b"-5 MB", b"a size of at least 1.00 MB, such as 192 MB", None),
        (
            b"git.memory",
            b"1000 kb",
            b"a size of at least 1.00 MB, such as 192 MB",
            None,
        ),
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


@pytest.mark.parametrize(
    ("section", "item", "value", "text", "hint"),
    [
        (
            b"clone-bundles",
            b"git.formats",
            b"git-v3",
            b"invalid value 'git-v3' for clone-bundles.git.formats "
            b"(expected git-v2 or cinnabar-v1)",
            b"did you mean 'git-v2'?",
        ),
        (
            b"clone-bundles",
            b"git.format",
            b"git-v2",
            b"unknown config item clone-bundles.git.format",
            b"did you mean clone-bundles.git.formats?",
        ),
        (
            b"amalgam",
            b"bundles.retention",
            b"a week",
            b"invalid value 'a week' for amalgam.bundles.retention "
            b"(expected a number of seconds)",
            None,
        ),
        (
            b"amalgam",
            b"bundles.retention",
            b"-1",
            b"invalid value '-1' for amalgam.bundles.retention "
            b"(expected a number of seconds)",
            None,
        ),
        (
            b"amalgam",
            b"bundles.url",
            b"ftp://x",
            b"invalid value 'ftp://x' for amalgam.bundles.url "
            b"(expected http://..., https://... or s3://BUCKET/PREFIX)",
            None,
        ),
        (
            b"amalgam",
            b"bundles.external",
            b"nope",
            b"invalid value 'nope' for amalgam.bundles.external (expected yes or no)",
            None,
        ),
        (
            b"amalgam",
            b"bundles.uri",
            b"http://x",
            b"unknown config item amalgam.bundles.uri",
            b"did you mean amalgam.bundles.url?",
        ),
    ],
)
def test_mistake_about_bundles_is_warned_of_once_and_stops_who_publishes(
    ui: Any, section: bytes, item: bytes, value: bytes, text: bytes, hint: bytes | None
) -> None:
    nothing = BundlesConfig.from_ui(ui)
    ui.setconfig(section, item, value)
    for _time in range(2):
        # what may leave is decided as it is safe
        assert BundlesConfig.from_ui(ui) == nothing._replace(
            external=False if item == b"bundles.external" else None
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
    ui.setconfig(b"amalgam", b"bundles." + item, value)
    text = b"invalid value '%s' for amalgam.bundles.%s (expected %s)"
    text %= (value, item, expected)
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


@pytest.mark.parametrize(
    ("section", "item", "value", "text"),
    [
        (
            b"amalgam",
            b"index.prefault",
            b"willned",
            b"invalid value 'willned' for amalgam.index.prefault "
            b"(expected none, willneed or populate)",
        ),
        (
            b"experimental",
            b"mmapindex",
            b"maybe",
            b"invalid value 'maybe' for experimental.mmapindex (expected yes or no)",
        ),
        (
            b"experimental",
            b"mmapindexthreshold",
            b"much",
            b"invalid value 'much' for experimental.mmapindexthreshold "
            b"(expected a size such as 1 MB; 0 maps every index)",
        ),
        (
            b"experimental",
            b"mmapindexthreshold",
            b"-1",
            b"invalid value '-1' for experimental.mmapindexthreshold "
            b"(expected a size such as 1 MB; 0 maps every index)",
        ),
        (
            b"amalgam",
            b"index.prefetch",
            b"none",
            b"unknown config item amalgam.index.prefetch",
        ),
    ],
)
def test_mistake_about_speed_is_warned_of_once(
    ui: Any, section: bytes, item: bytes, value: bytes, text: bytes
) -> None:
    nothing = IndexConfig.from_ui(ui, 5)
    ui.setconfig(section, item, value)
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
            if item == b"git.push-message":
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
