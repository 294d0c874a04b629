"""Builder of ``_core``: cffi reads the committed header.

setup.py builds the static Rust library and adds it. Run at build time only; cffi wants
the builder as a module-level name.
"""

from __future__ import annotations

from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[3]
HEADER = ROOT / "rust" / "capi" / "include" / "amalgam.h"

# The callback of type amalgam_report_fn; operation.py defines it.
CALLBACKS = """
extern "Python" int32_t amalgam_report(void *, uint32_t, uint64_t, uint64_t);
"""


def ffi_builder() -> FFI:
    """Return the builder of ``hgext3rd.amalgam.core._core``."""
    header = HEADER.read_text(encoding="utf-8")
    builder = FFI()
    builder.cdef(header + CALLBACKS)
    includes = "#include <stddef.h>\n#include <stdint.h>\n"
    builder.set_source("hgext3rd.amalgam.core._core", includes + header)
    return builder
