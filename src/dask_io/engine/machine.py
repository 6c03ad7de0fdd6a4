"""The memory of the machine, and the memory that the process uses."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
# Writing 5 here makes Linux forget the highest resident size so far.
_RESET = Path("/proc/self/clear_refs")


class ResidentMeter:
    """Measures the peak growth of the process's resident memory from now on.

    Creating a meter resets the peak resident size (``VmHWM``) of the whole process. If this is
    not possible, as on macOS, the growth is unknown, because the peak may be an earlier one.
    """

    def __init__(self) -> None:
        self._before: int | None = None
        with suppress(OSError):
            _RESET.write_text("5")
            self._before = _status("VmRSS")

    def growth(self) -> int | None:
        """Return the peak growth since the meter was created, None if unknown."""
        highest = _status("VmHWM")
        if self._before is None or highest is None:
            return None
        return max(0, highest - self._before)


def resident_bytes() -> int | None:
    """Return the resident memory of the process, None if it is unknown."""
    return _status("VmRSS")


def _status(field: str) -> int | None:
    return _field(Path("/proc/self/status"), field)


def _field(path: Path, name: str) -> int | None:
    """Return a field of a kernel table, converted from kB to bytes."""
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def available_memory() -> int:
    """Return the bytes that this process can still use, within the limits of its cgroups."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = _field(Path("/proc/meminfo"), "MemAvailable") or physical
    return max(0, min([free, *map(_free_in_group, _memory_groups())], default=free))


def _memory_groups() -> list[Path]:
    """Return the directories of this process's cgroups, innermost first."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, inside = line.split(":", 2)
            if controllers in {"", "memory"}:
                root = _GROUPS / controllers
                folder = root / inside.lstrip("/")
                groups = [folder, *folder.parents]
                found = [group for group in groups if group.is_relative_to(root)]
                if any((group / name).exists() for group in found for name in _LIMITS):
                    return found
    return []


# The files of cgroups v2, then v1: limit, usage, and the field of cached memory.
_LIMITS = {
    "memory.max": ("memory.current", "inactive_file"),
    "memory.limit_in_bytes": ("memory.usage_in_bytes", "total_inactive_file"),
}


def _free_in_group(group: Path) -> int:
    for limit, (usage, cached) in _LIMITS.items():
        with suppress(OSError, ValueError):
            used = int((group / usage).read_text())
            rows = (line.split() for line in (group / "memory.stat").read_text().splitlines())
            idle = next((int(value) for name, value in rows if name == cached), 0)
            return int((group / limit).read_text()) - used + idle
    return sys.maxsize
