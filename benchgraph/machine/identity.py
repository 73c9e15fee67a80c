"""What tells this machine from others that give their CPU the same name, as virtual machines do."""

from __future__ import annotations

import platform
from pathlib import Path

from benchgraph.core.files import text_or_nothing
from benchgraph.machine.target import caches, cpu_info
from benchgraph.machine.topology import topology

DMI = Path("/sys/class/dmi/id")  # what the firmware, or the hypervisor in its place, calls the machine
CLOCKS = Path("/sys/devices/system/clocksource/clocksource0/available_clocksource")
OF_CLOCKS = {"kvm-clock": "KVM", "hyperv_clocksource_tsc_page": "Hyper-V", "hyperv_clocksource_msr": "Hyper-V", "xen": "Xen"}
UNNAMED = "unnamed"


def identity() -> dict[str, str]:
    """What the system tells, by name: of the hardware `cpuid` (vendor, family, model, stepping), `caches` of the first core by level and
    `hypervisor` (its product, which clouds name after the type of instance; `none` on bare metal) and `topology`; of what runs it
    `microcode` and `kernel`. What is not known is left out.
    """
    info = cpu_info()
    parts = [info.get(name, "") for name in ("vendor_id", "cpu family", "model", "stepping")]
    found = {
        "cpuid": f"{parts[0]} {'-'.join(parts[1:])}" if all(parts) else "",
        "caches": ", ".join(f"L{level} {_size(size)}" for level, size in sorted(caches().items())),
        "hypervisor": _hypervisor(info.get("flags")),
        "topology": topology(),
        "microcode": info.get("microcode", ""),
        "kernel": f"{platform.system()} {platform.release()}".strip(),
    }
    return {name: text for name, text in found.items() if text}


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20}M" if nbytes >= 1 << 20 else f"{nbytes >> 10}K"


def _hypervisor(flags: str | None) -> str:
    """Of a virtual machine the names that it was given, or the kind of hypervisor that its clocks tell, where a container does not see the
    names. flags: of the CPU, None where they are not known.
    """
    if flags is None:
        return ""
    if "hypervisor" not in flags.split():
        return "none"
    names = " ".join(filter(None, (text_or_nothing(DMI / "sys_vendor"), text_or_nothing(DMI / "product_name"))))
    return names or next((OF_CLOCKS[clock] for clock in text_or_nothing(CLOCKS).split() if clock in OF_CLOCKS), UNNAMED)
