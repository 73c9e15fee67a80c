"""What tells this machine from others that give their CPU the same name, as virtual machines do."""

from __future__ import annotations

import platform
from pathlib import Path

from benchgraph.machine.target import caches, cpu_info

DMI = Path("/sys/class/dmi/id")  # what the firmware, or the hypervisor in its place, calls the machine
UNNAMED = "unnamed"


def identity() -> dict[str, str]:
    """What the system tells, by name: of the hardware `cpuid` (vendor, family, model, stepping), `caches` of the first core by level and
    `hypervisor` (its product, which clouds name after the type of instance; `none` on bare metal); of what runs it `microcode` and
    `kernel`. What is not known is left out.
    """
    info = cpu_info()
    parts = [info.get(name, "") for name in ("vendor_id", "cpu family", "model", "stepping")]
    found = {
        "cpuid": f"{parts[0]} {'-'.join(parts[1:])}" if all(parts) else "",
        "caches": ", ".join(f"L{level} {_size(size)}" for level, size in sorted(caches().items())),
        "hypervisor": _hypervisor(info.get("flags")),
        "microcode": info.get("microcode", ""),
        "kernel": f"{platform.system()} {platform.release()}".strip(),
    }
    return {name: text for name, text in found.items() if text}


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20}M" if nbytes >= 1 << 20 else f"{nbytes >> 10}K"


def _hypervisor(flags: str | None) -> str:
    """Of a virtual machine the names that it was given. flags: of the CPU, None where they are not known."""
    if flags is None:
        return ""
    if "hypervisor" not in flags.split():
        return "none"
    return " ".join(filter(None, (_line(DMI / "sys_vendor"), _line(DMI / "product_name")))) or UNNAMED


def _line(file: Path) -> str:
    """The text of a file that may be missing or secret."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
