"""Addresses of remotes: forms, secrets, and those that git must not get."""

from __future__ import annotations

import pytest
from mercurial import error

from hgext3rd.amalgam.remote import urls
from hgext3rd.amalgam.remote.refmap import RefMap


@pytest.mark.parametrize(
    ("text", "protocol", "shown"),
    [
        (b"https://example.org/x.git", b"https", b"https://example.org/x.git"),
        (b"https://me@example.org/x?a=b", b"https", b"https://***@example.org/x"),
        (b"http://[::1]:8000/x", b"http", b"http://[::1]:8000/x"),
        (b"ssh://git@example.org:22/x", b"ssh", b"ssh://git@example.org:22/x"),
        (b"git@example.org:me/x.git", b"ssh", b"git@example.org:me/x.git"),
        (b"git+https://example.org/x", b"https", b"https://example.org/x"),
        (b"git+ssh://example.org/x", b"ssh", b"ssh://example.org/x"),
        (b"../x.git", b"file", b"/base/x.git"),
        (b"/a:b/x", b"file", b"/a:b/x"),
    ],
)
def test_allowed(text: bytes, protocol: bytes, shown: bytes) -> None:
    found = urls.parsed(text, b"/base/repo")
    assert (found.protocol, found.shown) == (protocol, shown)


@pytest.mark.parametrize(
    "text",
    [
        *(b"git+-x://y", b"git+://x", b"git+git+ssh://x", b"git+ext::sh -c x"),
        *(b"", b"-x", b"ext::sh -c x", b"fd::3", b"foo://example.org/x", b"a\nb:c"),
        *(b"-oProxyCommand=x:y", b"ssh://-oProxyCommand=x/y", b"file\0"),
        *(b"https://me:secret@example.org/x", b"ssh://me:secret@example.org/x"),
        *(b"https://ghp_abcdefgh@example.org/x", b"https://me:sec/ret@example.org/x"),
    ],
)
def test_refused_without_telling_the_secret(text: bytes) -> None:
    with pytest.raises(error.InputError) as caught:
        urls.parsed(text, b"/base")
    assert b"sec" not in caught.value.message
    assert b"ghp" not in caught.value.message


def test_private_refs_go_only_by_a_pattern_of_their_own() -> None:
    names = [b"refs/heads/a", b"refs/tags/b", b"refs/hg/heads/c", b"refs/cinnabar/d"]

    def sent(*patterns: bytes) -> list[bytes]:
        return [name for name in names if RefMap(patterns).target(name)]

    assert sent() == names[:2]
    assert sent(b"*") == names[:1]
    assert sent(b"refs/*") == names[:2]
    assert sent(b"refs/hg/heads/*") == names[2:3]
    assert sent(b"refs/*:refs/x/*") == names[:2]


@pytest.mark.parametrize("pattern", [b"a b", b"a*b*", b"a:b*", b"a?", b"~x", b"..\\"])
def test_invalid_patterns_are_named(pattern: bytes) -> None:
    with pytest.raises(error.InputError):
        RefMap((pattern,))


@pytest.mark.parametrize(
    ("one", "two", "is_one_place"),
    [
        (b"https://example.org/a/b.git", b"ssh://git@Example.org:2222/a/b", True),
        (b"git@example.org:a/b.git", b"https://example.org/a/b/", True),
        (b"/srv/a", b"file:////srv/a/.git", True),
        (b"https://example.org/a/b", b"https://example.org/fork/b", False),
        (b"https://example.org/a/b", b"https://example.org:8443/a/b", False),
        (b"https://example.org/srv/a", b"/srv/a", False),
    ],
)
def test_a_place_is_host_and_path(
    one: bytes, two: bytes, *, is_one_place: bool
) -> None:
    places = {urls.parsed(it, b"/").place for it in (one, two)}
    assert (len(places) == 1) == is_one_place
