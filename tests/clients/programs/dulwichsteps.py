"""The steps, with dulwich."""

from __future__ import annotations

import os
import sys
from typing import Any

from dulwich import porcelain

step, directory, argument = sys.argv[1:]
url = os.environ["URL"]
login: dict[str, Any] = {}
if "PASSWORD" in os.environ:
    login = {"username": os.environ["USERNAME"], "password": os.environ["PASSWORD"]}

if step == "clone":
    porcelain.clone(url, directory, **login).close()
elif step == "shallow":
    porcelain.clone(url, directory, depth=1, **login).close()
elif step == "fetch":
    porcelain.fetch(directory, "origin", **login)
elif step == "commit":
    porcelain.add(directory, [os.path.join(directory, argument)])
    porcelain.commit(directory, argument)
elif step == "push":
    done = porcelain.push(directory, "origin", argument, **login)
    sys.exit(any((done.ref_status or {}).values()))
