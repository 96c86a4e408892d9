"""How much memory a computation asked for in vain, how much there is, and a limit that makes it fail early."""

from __future__ import annotations

import pathlib
import re
import resource

import attrs
import torch

_UNITS = {"bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_ASKED = re.compile(r"(?:tried|Tried|Unable) to allocate ([\d.]+) (bytes|[KMGT]iB|B)")
_STATUS = pathlib.Path("/proc/self/status")
_INFO = pathlib.Path("/proc/meminfo")


@attrs.frozen
class MemoryNeed:
    """What a computation that ran out of memory had needed at least.

    Attributes:
        held: bytes that it held at its peak.
        asked: bytes of the allocation that failed; 0 when the system ended the process without a word.
    """

    held: int
    asked: int

    @property
    def at_least(self) -> int:
        """A lower bound on the need, in bytes."""
        return self.held + self.asked


def asked_bytes(error: BaseException) -> int | None:
    """Bytes of the allocation that failed, by the error or its causes; ``None`` when memory was not the reason."""
    seen: BaseException | None = error
    while seen is not None:
        found = _ASKED.search(str(seen))
        if found:
            return round(float(found[1]) * _UNITS[found[2]])
        if isinstance(seen, MemoryError | torch.cuda.OutOfMemoryError) or "allocate memory" in str(seen):
            return 0
        seen = seen.__cause__ or seen.__context__
    return None


def status_bytes(text: str, name: str) -> int:
    """One entry of a ``/proc`` file such as ``VmHWM:  1024 kB``, in bytes; 0 when it is not there."""
    found = re.search(rf"^{name}:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def available_bytes() -> int | None:
    """Memory that is free for new work, in bytes; ``None`` where the system does not say."""
    return status_bytes(_INFO.read_text(), "MemAvailable") or None if _INFO.exists() else None


def limit_memory(limit: int) -> None:
    """Let allocations beyond ``limit`` more bytes fail in this process, before the system ends it.

    Counts private data, not the address space, so that mapped libraries and reserved GPU addresses are free.
    """
    if _STATUS.exists():
        total = status_bytes(_STATUS.read_text(), "VmData") + limit
        resource.setrlimit(resource.RLIMIT_DATA, (total, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def in_words(size: int) -> str:
    """Bytes as GB with two digits after the point."""
    return f"{size / 1e9:.2f} GB"
