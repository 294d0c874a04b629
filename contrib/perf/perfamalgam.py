"""time amalgam with warm and with cold caches

For who enables an extension by its file, as upstream's perf.py is: the commands are
those of ``hgext3rd.amalgam.perf``, which is installed with amalgam.
"""

from __future__ import annotations

from hgext3rd.amalgam.perf import (
    __version__,
    buglink,
    cmdtable,
    minimumhgversion,
    testedwith,
    uisetup,
)

__all__ = [
    "__version__",
    "buglink",
    "cmdtable",
    "minimumhgversion",
    "testedwith",
    "uisetup",
]
