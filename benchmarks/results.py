"""What is saved of the parts: the file, and the code and the machine that it comes from."""

import json
import os
import platform
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from stores import peers
from tables import is_ours

HERE = Path(__file__).parent
ROOT = HERE.parent
Found = dict[str, Any]
# These parts are saved after each step, under these names; what a step has of a store is not done
# again.
IN_STEPS = {"growth": "stores", "several": "processes"}
CODE = {".py", ".md", ".json", ".jsonl", ".txt"}  # files that are hashed


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


def is_kept(results: Found, part: str, code: str, quick: bool) -> bool:
    """Whether what is saved of a part is of this code, and can be gone on with."""
    ran = results["ran"].get(part, {})
    same = part in results["parts"] and (ran.get("code"), ran.get("quick")) == (code, quick)
    return same and (part in IN_STEPS or "failed" not in ran)


def lacking(
    found: Found, part: str, steps: Iterable[int], stores: list[str] | None = None
) -> dict[int, list[str]]:
    """The steps of a part that are not whole, with those of the stores that have no row there."""
    names = stores or [peer.name for peer in peers.PEERS]
    rows = {step: found.get(IN_STEPS[part], {}).get(str(step), {}) for step in steps}
    left = {step: [name for name in names if name not in there] for step, there in rows.items()}
    return {step: missing for step, missing in left.items() if missing}


def joined(done: Found, found: Found, part: str) -> Found:
    """What was done of a part, with what was found in another step, or of other stores in it."""
    key = IN_STEPS[part]
    groups = {**done.get(key, {})}
    for step, rows in found[key].items():
        groups[step] = groups.get(step, {}) | rows
    whole = {**found, key: dict(sorted(groups.items(), key=lambda group: int(group[0])))}
    if "environments" in found:
        whole["environments"] = done.get("environments", {}) | found["environments"]
    return whole


def is_empty(found: Any) -> bool:
    """Whether a part, or one of its two upper levels, has no figures."""
    groups = [*found.values()] if found else []
    rows = [row for group in groups if isinstance(group, dict) for row in group.values()]
    return not found or any(each in ({}, []) for each in (*groups, *rows))


def our_failures(results: Found) -> Iterator[str]:
    """Parts that broke off, and our own stores that failed; that another's does is a result."""
    yield from (part for part, ran in results["ran"].items() if "failed" in ran)
    for part, groups in IN_STEPS.items():
        for rows in results["parts"].get(part, {}).get(groups, {}).values():
            for name, row in rows.items():
                failed = row.get("failed", peers.NOT_TRIED)
                if is_ours(name) and not failed.startswith(peers.NOT_TRIED):
                    yield name


def version() -> str:
    """The version of the product."""
    project = tomllib.loads((ROOT / "modules/tool-memory-semantic/pyproject.toml").read_text())
    return project["project"]["version"]


def code_of(files: str) -> str:
    """A hash of the product's code, and of these files and folders here."""
    hashed = [*ROOT.glob("modules/*/*/**/*"), *ROOT.glob("context/*")]
    for name in files.split():
        hashed += [HERE / name, *(HERE / name).rglob("*")]
    digest = sha256(version().encode())
    for file in sorted(file for file in hashed if file.suffix in CODE):
        digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def machine() -> Found:
    """What the figures depend on, without what names the machine or its user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpu, virtual = platform.processor(), False
    if (info := Path("/proc/cpuinfo")).exists():
        lines = [line.split(":", 1) for line in info.read_text().splitlines() if ":" in line]
        about = {name.strip(): value.strip() for name, value in lines}
        cpu = about.get("model name", cpu)
        virtual = "hypervisor" in about.get("flags", "").split()
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        system = f"{platform.system()} {platform.mac_ver()[0]}".strip()
    return {
        "cpu": cpu or platform.machine(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "virtual": virtual,
        "memory_gb": round(memory / 2**30, 1),
        "system": system,
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": file_system(Path(tempfile.gettempdir())),
        "python": platform.python_version(),
    }


def file_system(path: Path) -> str | None:
    """The kind of file system that a path is on, where the kernel says it."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return None
    kinds = {fields[1]: fields[2] for fields in map(str.split, mounts.read_text().splitlines())}
    resolved = path.resolve()
    return next(
        (kinds[str(each)] for each in (resolved, *resolved.parents) if str(each) in kinds), None
    )
