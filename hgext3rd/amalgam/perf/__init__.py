"""time amalgam with warm and with cold caches

Mercurial's own perf commands measure what is in memory already. These measure, beside
that, what the first process after a reboot pays: the files of the repository are
dropped from the page cache of the operating system before each sample, and mincore(2)
is asked whether they are gone. Where they cannot be dropped, that is said in place of a
number. Each sample is a process of its own. Enable them with::

  [extensions]
  hgext3rd.amalgam.perf =

The commands are ``perf::amalgam-index``, ``perf::amalgam-node-lookup``,
``perf::amalgam-startup``, ``perf::amalgam-export`` and ``perf::amalgam-bundle``.

Rows
====

``read`` is Mercurial with ``storage.revlog.mmap.index = no``, which the others are
compared with; ``read, again`` the same once more: what these two differ by is noise.
``mmap`` is Mercurial's own mapping. The others have amalgam: the first reads or maps
as it is configured, the others map a snapshot, with each ``amalgam.index.prefault``;
one without ``amalgam.index.node-map``. For an export, amalgam itself reads or maps.

A process that did not get its index in the way of its row gives no number. All rows
have to answer the same before anything is timed.

Those rows map whatever the size. By default, hg maps no index below 1 MB, and amalgam
none below 8 MB: if that concerns this repository, a line below the title says so.

All code has run before, on a repository of one revision. The time of loading is in
``perf::amalgam-startup``.

Columns
=======

Warm and cold, or one of them with ``--cache``. Each has the median in milliseconds or
microseconds; the change against the first row, in parentheses if it is not more than
the noise; megabytes that were read from disk; page faults, and those of them that
waited for the disk (``major``). Lines below the table say how large the noise is, and
which row is the fastest. ``-T json`` has each sample, in seconds.

Everything is done in a copy of ``.hg`` below ``.hg/amalgam``, which is removed in the
end. File revisions are hard links in it. Nothing else changes in the repository.

Options
=======

Upstream's, from ``contrib/perf.py``, which may be loaded, too: ``perf.presleep``
(default 1, in seconds), and ``perf.stub``, which takes one sample each. The samples of
a table are taken in passes, each cell once, in random order. ``perf.run-limits``
(default ``20.0-20, 60.0-3``) ends a table after so many seconds, if each cell has so
many samples. The seconds begin with the first process of the table::

  [perf]
  run-limits = 3.0-5
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import configitems, help, registrar

from .. import __version__, buglink, testedwith  # noqa: F401
from . import commands

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

minimumhgversion = b"6.9"

cmdtable = commands.eh.cmdtable

_TOPIC = b"amalgam-perf"  # `hg help -e` splits names at dots


def uisetup(ui: UiT) -> None:
    """Register the help topic, and options that perf.py has not."""
    table: dict[bytes, Any] = {}
    for name in (b"presleep", b"run-limits", b"stub"):
        if name not in ui._knownconfig.get(b"perf", {}):
            default = configitems.dynamicdefault
            registrar.configitem(table)(b"perf", name, default=default)
    configitems.loadconfigtable(ui, b"amalgam.perf", table)
    add_topic(help)


def add_topic(helpmod: Any) -> None:
    """Register the text above as a help topic, once."""
    title, _newline, text = (__doc__ or "").encode().partition(b"\n")
    topic = ([_TOPIC], title, lambda _ui: text, helpmod.TOPIC_CATEGORY_MISC)
    if not any(_TOPIC in known[0] for known in helpmod.helptable):
        helpmod.helptable.append(topic)
