"""A harness that settles arguments about speed and memory.

In reading order: ``benchmark`` is one measurement, and ``benchmarks`` are all of them;
``subject`` is whose work is measured, ``repository`` on what; ``runner`` runs them in
passes of random order, under the ``instruments``; ``results`` are written and read,
``report`` shows them, and ``history`` follows them from commit to commit. ``__main__``
is the command line.

``hgext3rd.amalgam.perf`` has the parts that ``hg perf::amalgam-*`` needs, too: the
order of ``passes``, the cost of ``samples`` and their ``judgement``. Neither they nor
the harness need Mercurial: whatever is measured is a process.
"""

import sys
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[3]

try:
    import hgext3rd.amalgam.perf  # noqa: F401
except ImportError:  # the packages above those modules need Mercurial
    for _name in ("hgext3rd", "hgext3rd.amalgam", "hgext3rd.amalgam.perf"):
        sys.modules[_name] = ModuleType(_name)
        sys.modules[_name].__path__ = [str(_ROOT.joinpath(*_name.split(".")))]
