"""What is saved of the parts: the file, and the machine that it comes from."""

import json
import os
import platform
import re
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stores import peers
from tables import is_ours

ROOT = Path(__file__).parent.parent
Found = dict[str, Any]


def load(folder: Path) -> Found:
    """What is saved below `folder`: `parts`, and how each of them `ran`."""
    file = folder / "benchmarks/results.json"
    return {"parts": {}, "ran": {}} | (json.loads(file.read_text()) if file.exists() else {})


def save(results: Found, folder: Path) -> None:
    """Write the results: lists on one line, without the folders and addresses of this machine."""
    text = json.dumps(results, indent=1)
    text = re.sub(r"\[\n\s*([^\[\]{}]*?)\n\s*\]", _on_one_line, text)
    places = {tempfile.gettempdir(): "TEMP", str(ROOT): "PROJECT", str(Path.home()): "~"}
    for place, name in places.items():
        text = text.replace(f"{place}/", f"{name}/")
    text = re.sub(r"\b(https?://)[^\s\"'`)]+", r"\1…", text)
    file = folder / "benchmarks/results.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(text + "\n")
    new.replace(file)


def _on_one_line(found: re.Match[str]) -> str:
    return "[" + re.sub(r"\n\s*", " ", found[1]) + "]"


def is_empty(found: Any) -> bool:
    """Whether a part, or one of its two upper levels, has no figures."""
    groups = [*found.values()] if found else []
    rows = [row for group in groups if isinstance(group, dict) for row in group.values()]
    return not found or any(each in ({}, []) for each in (*groups, *rows))


def our_failures(results: Found) -> Iterator[str]:
    """Parts that broke off, and our own stores that failed; that another's does is a result."""
    yield from (part for part, ran in results["ran"].items() if "failed" in ran)
    for part, groups in (("growth", "stores"), ("several", "processes")):
        for rows in results["parts"].get(part, {}).get(groups, {}).values():
            for name, row in rows.items():
                failed = row.get("failed", peers.NOT_TRIED)
                if is_ours(name) and not failed.startswith(peers.NOT_TRIED):
                    yield name


def version() -> str:
    """The version of the product."""
    project = tomllib.loads((ROOT / "modules/tool-memory-semantic/pyproject.toml").read_text())
    return project["project"]["version"]


def machine() -> str:
    """What the figures depend on, without what names the machine or its user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cpu, virtual = platform.processor() or platform.machine(), ""
    if (info := Path("/proc/cpuinfo")).exists():
        lines = [line.split(":", 1) for line in info.read_text().splitlines() if ":" in line]
        about = {name.strip(): value.strip() for name, value in lines}
        cpu = about.get("model name", cpu)
        virtual = " of a virtual machine" if "hypervisor" in about.get("flags", "").split() else ""
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        system = f"{platform.system()} {platform.mac_ver()[0]}".strip()
    return (
        f"{os.cpu_count()} cores{virtual}, {cpu} ({platform.machine()}), {memory:.0f} GB of "
        f"memory; {system}; Python {platform.python_version()}"
    )
