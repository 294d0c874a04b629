"""Bytes that converters get wrong, by the place where they stand.

git-cinnabar can convert all of them, alone and together. Those it cannot convert are in
``oracle.crashes``.
"""

from __future__ import annotations

USERS: tuple[bytes, ...] = (
    b"Foo Bar <foo@bar.org>",
    b"foo",
    b"foo@bar",
    b"<foo@bar>",
    b"<>",
    b"Foo Bar<foo@bar>",
    b"Foo  Bar  <foo@bar>",
    b"Foo <foo@bar>, Baz <b@z>",
    b"Foo (foo@bar)",
    b"Foo <foo",
    b"foo>",
    b"a > b <c@d>",
    b"Foo <a<b@c>",
    b'"Foo <foo@bar>"',
    b"<Foo> foo@bar",
    b"foo <>",
    b"<",
    b">",
    b"><",
    b"@",
    b" ",
    b"no email <  >",
    b"tab\t<x@y>",
    b"a\rb <x@y>",
    b"foo <bar@baz",
    b"bar@baz>",
    b"  Foo <f@x> ",
    b"Ren\xe9 <r@x>",
    "李雷 <li@lei>".encode(),
    b"control\x01\x7f <c@c>",
    b"very " * 60 + b"long <l@l>",
)
OFFSETS: tuple[bytes, ...] = (
    *(b"0", b"3600", b"-3600", b"-19800", b"-20700", b"12600", b"1", b"30", b"59"),
    *(b"-1", b"-59", b"60", b"-60", b"61", b"3599", b"-3599", b"5417", b"86399"),
    *(b"-86399", b"360000", b"+0", b"+60", b"-0", b"000"),
)
SECONDS: tuple[bytes, ...] = (
    *(b"0", b"1", b"100", b"1000000000", b"2147483647", b"99999999999", b"+7"),
    *(b"01000000100", b"18446744073709551615"),
)
COMMITTERS: tuple[bytes, ...] = (
    b"C D <c@d.e> 400 -3600",
    b"C D <c@d.e> 600 +0100",
    b"C D <c@d.e> 12 -0130",
    b"C D <c@d.e> 12 -1100",
    b"C D <c@d.e> 12 -1800",
    b"C D <c@d.e> 12 -900",
    b"C D <c@d.e> 12 -1030",
    b"C D <c@d.e> 12 -100",
    b"C D <c@d.e> 12 3661",
    b"C D <c@d.e> 0 +0",
    b"C D <c@d.e>",
    b"<c@d>",
    b">",
    b"plain 5 0",
    b"at@sign 5 7",
    b" 5 0",
    b"5 0 7 60",
    b"Ren\xe9 <r@x> 5 -0000",
    b"esc\\n\\0\\\\ <e@e> 5 0",
    b"a <b@c> d 5 0",
)
BRANCHES: tuple[bytes, ...] = (
    b"default",
    b"stable",
    b"b1",
    b"b2",
    b"feature/x",
    b"caf\xc3\xa9",
    b"1.0",
)
#: No ref of git can be called so: a clone by git-cinnabar leaves their changesets out.
REFUSED_BRANCHES: tuple[bytes, ...] = (b"a..b", b"~", b"x.lock", b"q?", b"a//b")
EXTRAS: tuple[bytes, ...] = (
    b"zz:1",
    b"aa:2",
    b"source:3d04bb3be6090c94a206e75a0dc305cde9a479ed",
    b"amend_source:\\0\\n\\r\\\\",
    b"topic:t",
    b"empty:",
    b":no key",
    b"colons:a:b:c",
    b"latin:\xe9\xff",
    b"space: x ",
)
DESCRIPTIONS: tuple[bytes, ...] = (
    b"change",
    b"",
    b"\n",
    b"\n\nleading",
    b"trailing\n",
    b"trailing\n\n\n",
    b"two\n\nparagraphs",
    b"windows\r\nlines\r\n\r\n",
    b"Ren\xe9 \xff\xfe",
    b"a\0b\0",
    b"\0",
    " Schöne Grüße ".encode(),
    b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nparent",
    b"long " * 900,
)
#: `git fsck` has something to say of some, all can be stored.
NAMES: tuple[bytes, ...] = (
    *(b"a", b"b", b"dir-y", b"dir.x", b"dir/f", b"dir/sub/g", b"dir0", b"dir"),
    *(b"a/b", b"a/b/c", b"a-b", b"a.b", b"a0"),
    *(b"_", b"__", b"_x/_y", b"_dir/f", b"x_/_"),
    *(b".hgsub", b".hgsubstate", b".hgtags", b".hgeol", b".gitignore", b".gitmodules"),
    *(b"caf\xe9", "café".encode(), b"\xff\xfe/\x80", b"README", b"readme", b"ReadMe"),
    *(b" lead", b"trail ", b"dot.", b"...", b"aux", b"con.txt", b"dir/nul.c"),
    *(b"a.i/b", b"x.d/y", b"w.hg/z", b"data/x", b"q.i", b"q.d"),
    *(b"tab\tx", b"\x01\x02", b"\x7f", b'"quo\\te"', b"co:lon", b"st*r?", b"~tilde"),
    *(b"-dash", b"%41", b"a b/c d", b"git~1", b"NUL/x"),
    b"long/" + b"l" * 300,
    b"/".join(b"d%d" % depth for depth in range(60)),
    b"/".join([b"deep component with capitals ABC"] * 12),
    b"/".join([b"l" * 250] * 20),
)
#: Paths that no checkout makes.
REFUSED_NAMES: tuple[bytes, ...] = (
    b".git/config",
    b".GIT",
    b"../up",
    b"./here",
    b"dir/../b",
    b".hg/hgrc",
)
#: Old conversions left such paths; in the store they are where the same without is.
DOUBLED_NAMES: tuple[bytes, ...] = (
    *(b"a//b", b"dir//f", b"dir//sub/g", b"dir/sub//g", b"q//x//y", b"t///u"),
    *(b"/a", b"/dir/f", b"//b", b"/dir//sub/g"),
)
CONTENTS: tuple[bytes, ...] = (
    b"",
    b"x\n",
    b"no line feed",
    b"\x01\n",
    b"\x01\nescaped\n",
    b"\x01\n\x01\ntwice",
    b"\x01\ncopy: a\n\x01\n",
    b"nul\0nul\0",
    b"a\r\nb\r\n",
    b"\xff\xfe\x00",
    b"\n",
)
