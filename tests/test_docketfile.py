"""The common form of dockets, and the older ones, which are read for two releases."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings, strategies as st

from hgext3rd.amalgam import docketfile
from hgext3rd.amalgam.docketfile import Field, formatted, parsed
from hgext3rd.amalgam.gitstore.checkpoint import Checkpoint
from hgext3rd.amalgam.gitstore.docket import Docket, Layer, MetadataCommit

TITLE = b"amalgam test 1"
KEYS = st.text("abc-", min_size=1).map(str.encode)


@settings(deadline=None)
@given(lines=st.lists(st.tuples(KEYS, st.binary())))
def test_any_value_is_one_line_without_control_characters(
    lines: list[tuple[bytes, bytes]],
) -> None:
    content = formatted(TITLE, lines)
    assert parsed(content, TITLE) == lines
    assert content.count(b"\n") == len(lines) + 2
    controls = {*range(0x20), 0x7F} - {0x0A}
    assert not controls & {*content}


def test_form_is_the_one_that_is_documented() -> None:
    lines = [(b"url", b"https://x/%41?a b"), (b"odd", b"a\nb\\x41\x7f\xff")]
    assert formatted(TITLE, lines) == (
        b"amalgam test 1\n"
        b"url https://x/%41?a b\n"
        b"odd a\\x0ab\\x5cx41\\x7f\xff\n"
        b"sum af938d3f\n"
    )


@pytest.mark.parametrize(
    "value", [b"\\", b"\\x4", b"\\x41", b"\\x0A", b"\\n", b"\\x+1", b"\\x-1", b"\x1b"]
)
def test_value_that_is_escaped_in_another_way_is_refused(value: bytes) -> None:
    body = b"%s\nkey %s\n" % (TITLE, value)
    with pytest.raises(ValueError, match=r"escaped|digit|base 16|range"):
        parsed(body + b"sum %08x\n" % zlib.crc32(body), TITLE)


def test_damage_anywhere_is_noticed() -> None:
    whole = formatted(TITLE, [(b"key", b"value"), (b"key", b"sum 0")])
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        for content in (bytes(changed), whole[:at], whole[:at] + b"\n" + whole[at:]):
            with pytest.raises(ValueError, match="damaged"):
                parsed(content, TITLE)
    with pytest.raises(ValueError, match="another kind or version"):
        parsed(whole, b"amalgam test 2")
    with pytest.raises(ValueError, match="damaged"):
        parsed(b'{"version": 1}', TITLE)


FIELDS = {
    "must": docketfile.numbers(b"must"),
    "may": docketfile.flags(b"may"),
    "some": Field(b"some", bytes, bytes, many=True),
}


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [(b"must", b"1"), (b"must", b"2")],
        [(b"must", b"")],
        [(b"must", b"-1")],
        [(b"must", b"9" * 20)],
        [(b"must", b"%d" % 2**63)],
        [(b"must", "\u0661".encode())],
        [(b"must", b"1"), (b"may", b"no")],
        [(b"must", b"1"), (b"other", b"1")],
        [(b"must", b"1"), (b"", b"1")],
    ],
)
def test_fields_that_do_not_fit_are_refused(lines: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(ValueError, match=r"number|yes|keys|no value"):
        docketfile.values_of(lines, FIELDS)


def test_fields_have_defaults_and_lines_twice_count_once() -> None:
    lines = [(b"some", b"b"), (b"must", b"1"), (b"some", b"a"), (b"some", b"b")]
    found = docketfile.values_of(lines, FIELDS)
    assert found == {"must": 1, "may": False, "some": (b"b", b"a")}


LAYER = Layer(
    segments=("cinnabar-0123456789abcdef.map",),
    packs=("pack-" + "1" * 40, "pack-" + "2" * 40),
    complete="pack-" + "1" * 40,
    metadata_segments=("cinnabar-metadata-0123456789abcdef.map",),
    seen=(Checkpoint(7, "4" * 40, "5" * 40), Checkpoint(8, "6" * 40, "5" * 40)),
)
DOCKET = Docket(
    base=LAYER,
    drafts=Layer(
        segments=("cinnabar-00000000000000aa.map",),
        metadata_segments=("cinnabar-metadata-00000000000000aa.map",),
    ),
    base_commit=MetadataCommit("3" * 40, 7, ("pack-" + "a" * 40,)),
    drafts_commit=MetadataCommit("b" * 40, 9, ("pack-" + "c" * 40,)),
    held=((b"a" * 20, b"b" * 20),),
    refused=True,
    dropped=("pack-\udcff\x1b",),
    named="7" * 40,
    censored="8" * 32,
    summaries="9" * 40,
)


@pytest.mark.parametrize("docket", [Docket(), DOCKET, DOCKET._replace(refused=False)])
def test_git_docket_is_what_was_written(docket: Docket) -> None:
    assert Docket.parse(docket.format()) == docket
