"""What results are worth nothing without: the machine, and how busy it was."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

Facts = dict[str, object]


def facts() -> Facts:
    """Return what this machine is, and its load now."""
    return {
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": list(os.getloadavg()),
        "python": platform.python_version(),
    }


def name(facts: Facts) -> str:
    """Return what kind of machine it is."""
    memory = facts["memory_bytes"]
    gigabytes = memory / 2**30 if isinstance(memory, int) else 0
    return f"{facts['cpu']}, {facts['cores']} cores, {gigabytes:.0f} GB"


def describe(facts: Facts) -> str:
    """Return it in one line, with how busy it was."""
    load = facts["load_average"]
    first = load[0] if isinstance(load, list) else 0
    return f"{name(facts)}, {facts['platform']}; load {first:.1f} at the start"


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [
        line.partition(": ")[2] for line in lines if line.startswith("model name")
    ]
    return models[0] if models else platform.processor()
