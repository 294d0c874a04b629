"""Settings of the site that ``make docs`` builds: Sphinx, with the theme furo.

The pages are those of the repository, with the links that they have there. The source
directory is the root of the tree, so that README and NEWS are pages, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from hgext3rd.amalgam import __version__  # noqa: E402

project = "hg-amalgam"
author = "the authors of amalgam"
release = version = __version__.decode()

extensions = ["commandpages", "pagelinks"]
root_doc = "docs/index"
include_patterns = ["*.rst", "docs/**.rst", "contrib/**.rst"]
nitpicky = True
keep_warnings = True
highlight_language = "none"
# options begin with two hyphens
smartquotes = False

html_theme = "furo"
html_title = f"amalgam {release}"
html_extra_path = ["root"]
html_static_path = ["static"]
html_css_files = ["amalgam.css"]
html_show_copyright = False
html_copy_source = False


def setup(app: Any) -> dict[str, bool]:
    """Say that pages may be read in parallel."""
    return {"parallel_read_safe": True}
