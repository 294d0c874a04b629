"""One Python target with libFuzzer: python -m fuzz.one TARGET [option...]."""

from __future__ import annotations

import functools
import sys

import atheris

with atheris.instrument_imports(include=["hgext3rd.amalgam"]):
    from . import targets

if __name__ == "__main__":
    target = functools.partial(targets.run, sys.argv.pop(1))
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
