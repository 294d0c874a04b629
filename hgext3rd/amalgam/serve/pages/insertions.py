"""What is inserted into the templates of Mercurial's styles, and where.

Templates of others are left alone, unless they have the same place in them. They can
use the keywords of ``keywords`` by themselves. Mercurial's own extension ``highlight``
changes templates in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence


class Insertion(Record):
    """A text before the first occurrence of another, in some templates of a style."""

    templates: Sequence[bytes]
    anchor: bytes
    text: bytes


_LOGS = (b"shortlog", b"changelog")
_WRAPPED = b' style="overflow-wrap: anywhere"'
_COMMANDS = (
    b"<tt%s>git clone {gitclone|escape}</tt>" % _WRAPPED,
    b"<tt%s>git clone --bundle-uri={gitbundles|escape} {gitclone|escape}</tt>"
    % _WRAPPED,
)
_GITNODE = b"<tt%s>{gitnode}</tt>" % _WRAPPED


def _shown(keyword: bytes, text: bytes) -> bytes:
    """Return what shows ``text`` if a keyword is not empty."""
    return b"{if(%s, '%s')}" % (keyword, text)


def _commands(form: bytes) -> bytes:
    """Return both commands to clone, each in a ``form`` with a label before it."""
    plain, from_bundles = _COMMANDS
    return _shown(b"gitclone", form % (b"git", plain)) + _shown(
        b"if(gitclone, gitbundles)", form % (b"git, from bundles", from_bundles)
    )


_BEFORE_OBSOLETE = b"{if(obsolete, succsandmarkers%obsfateentry)}"
_PAPER = (
    Insertion(_LOGS, b'<div class="navigate">', _commands(b"<p>%s: %s</p>\n")),
    Insertion(
        (b"changeset",),
        b'<tr>\n <th class="author">parents</th>',
        _shown(
            b"gitnode",
            b'<tr>\n <th class="author">git</th>\n'
            b' <td class="author">%s</td>\n</tr>\n' % _GITNODE,
        ),
    ),
)
_JSON = (
    *(b"changeset", b"changelistentry", b"graphentry", b"filerevision", b"filediff"),
    *(b"filecomparison", b"fileannotate", b"tagentry", b"bookmarkentry"),
    b"branchentry",
)
_OF_STYLES = {
    b"paper": _PAPER,
    b"coal": _PAPER,
    b"gitweb": (
        Insertion(
            (b"summary",),
            b"<tr><td>last change</td>",
            _commands(b"<tr><td>%s</td><td>%s</td></tr>\n"),
        ),
        Insertion(
            (b"changeset",),
            _BEFORE_OBSOLETE,
            _shown(b"gitnode", b"<tr><td>git commit</td><td>%s</td></tr>" % _GITNODE),
        ),
    ),
    b"monoblue": (
        Insertion(
            (b"summary",),
            b"<dt>last change</dt>",
            _commands(b"<dt>%s</dt><dd>%s</dd>\n"),
        ),
        Insertion(
            (b"changeset",),
            _BEFORE_OBSOLETE,
            _shown(b"gitnode", b"<dt>git commit</dt><dd>%s</dd>" % _GITNODE),
        ),
    ),
    b"spartan": (
        Insertion(
            _LOGS, b'<form action="{url|urlescape}log">', _commands(b"<p>%s: %s</p>\n")
        ),
        Insertion(
            (b"changeset",),
            _BEFORE_OBSOLETE,
            _shown(
                b"gitnode",
                b'<tr>\n <th class="changeset">git commit:</th>\n'
                b' <td class="changeset">%s</td>\n</tr>' % _GITNODE,
            ),
        ),
    ),
    b"json": (
        Insertion(
            _JSON,
            b'"node": {node|json},',
            b'"gitnode": {if(gitnode, gitnode|json, "null")},\n',
        ),
    ),
}


def insert(tmpl: Any, style: bytes, page: bytes) -> list[bytes]:
    """Change the templates that ``page`` needs; return the names of those changed.

    ``tmpl`` is the templater of one request. Templates in files of their own are only
    read for the page itself.
    """
    changed = []
    for insertion in _OF_STYLES.get(style, ()):
        for name in insertion.templates:
            if name == page and name in tmpl:
                tmpl.load(name)
            text = tmpl.cache.get(name, b"")
            before, anchor, after = text.partition(insertion.anchor)
            if anchor:
                tmpl.cache[name] = before + insertion.text + anchor + after
                changed.append(name)
    return changed
