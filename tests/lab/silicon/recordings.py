"""Writes what the simulated nvidia-smi prints as recordings: `python -m tests.lab.silicon.recordings`.

They lie in `tests/preflight/smi/` and are committed: the readers of saved outputs are tested in any checkout.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.lab.silicon.ask import smi
from tests.lab.silicon.profile import Profile, load_profile, parse_profile
from tests.lab.silicon.state import stage

RECORDINGS = Path(__file__).parents[2] / "preflight" / "smi"
RULE = "#" * 78
TIMESTAMP = "Sun Nov 22 10:00:00 2026"
QUERY = "--query-gpu=index,name,uuid,pci.bus_id,compute_cap,compute_mode,memory.total,memory.used,memory.free"

FORMS: dict[str, tuple[str, ...]] = {
    "q.xml": ("-q", "-x"),
    "q.txt": ("-q",),
    "table.txt": (),
    "list.txt": ("-L",),
    "nvlink.txt": ("nvlink", "-s"),
    "query.csv": (QUERY, "--format=csv"),
}
"""How a recording's name ends, and what nvidia-smi is called with."""

CAPTURE = "capture.txt"
"""Several commands in one file, each under its own line."""

ALL = (*FORMS, CAPTURE)

# Hosts that no profile describes yet: each is one state that a reader must get right.
MADE_UP = {
    "2xl40s-busy": """
        system: {driver_version: 550.90.07, nvml_version: 12.550.90.07, cuda_version: 12040}
        gpus:
        - board: l40s
          pci_bus_id: "00000000:01:00.0"
          compute_mode: 3
          memory: {used_mib: 39120}
          processes:
          - {pid: 4242, kind: C, used_mib: 39100, name: /home/ada/venvs/train/bin/python}
        - board: l40s
          pci_bus_id: "00000000:C1:00.0"
          compute_mode: 3
          memory: {used_mib: 1100}
          processes:
          - {pid: 4243, kind: C, used_mib: 700, name: python3}
          - {pid: 977, kind: C+G, used_mib: 380, name: "/usr/bin/a viewer with spaces in its name"}
        """,
    "h100-remap-pending": """
        system: {driver_version: 570.133.20, nvml_version: 12.570.133.20, cuda_version: 12080}
        gpus:
        - {board: h100, pci_bus_id: "00000000:19:00.0", throttle_reasons: 0x88,
           remap: {uncorrectable: 4, pending: 1, banks_max: 2559, banks_high: 1}}
        """,
    "2xl40s-held-by-nobody": """
        system: {driver_version: 550.90.07, nvml_version: 12.550.90.07, cuda_version: 12040}
        gpus:
        - {board: l40s, pci_bus_id: "00000000:01:00.0", memory: {used_mib: 10916}}
        - {board: l40s, pci_bus_id: "00000000:C1:00.0", processes: null}
        """,
    "error_library-mismatch": """
        system: {driver_version: 550.90.07, nvml_version: 12.550.90.07, cuda_version: 12040}
        calls: {nvmlInit: return 18}
        gpus: []
        """,
    "error_no-devices": """
        system: {driver_version: 550.90.07, nvml_version: 12.550.90.07, cuda_version: 12040}
        gpus: []
        """,
    "error_not-loaded": """
        system: {driver_version: 550.90.07, nvml_version: 12.550.90.07, cuda_version: 12040}
        calls: {nvmlInit: return 9}
        gpus: []
        """,
}

RECORDED: dict[str, tuple[str, ...]] = {
    "2xl40s-busy": ALL,
    "2xl40s-held-by-nobody": ("q.xml", "q.txt", "table.txt"),
    "4xgh200": ("q.xml",),
    "8xa100-mig": ("q.txt", "table.txt", "nvlink.txt"),
    "h100-remap-pending": ("q.xml", "q.txt"),
    "p100": ("q.xml", "q.txt"),
    "rtx-2080+gtx-750-ti": ("q.xml", "table.txt"),
    "titan-rtx": ALL,
    "wsl2": ("q.xml", "table.txt"),
    "8xh100-broken": ("table.txt",),
    "error_library-mismatch": ("table.txt",),
    "error_no-devices": ("q.txt",),
    "error_not-loaded": ("table.txt",),
}
"""Host -> the forms that are kept of it."""


def profile_of(name: str) -> Profile:
    """Return what the host of a recording is made of."""
    return parse_profile(MADE_UP[name], name) if name in MADE_UP else load_profile(name)


def recordings() -> Iterator[tuple[str, str]]:
    """Yield (file name, text) of every recording, each with the same time stamp."""
    for name, forms in RECORDED.items():
        with tempfile.TemporaryDirectory() as directory:
            staged = stage(profile_of(name), Path(directory))
            for form in forms:
                yield f"{name}.{form}", _printed(staged, form)


def _printed(staged: Path, form: str) -> str:
    if form == CAPTURE:
        return "".join(_section(staged, arguments) for arguments in FORMS.values())
    return re.sub(
        r"\b\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\b", TIMESTAMP, smi(staged, *FORMS[form]).stdout
    )


def _section(staged: Path, arguments: tuple[str, ...]) -> str:
    form = next(form for form, known in FORMS.items() if known == arguments)
    return f"# $ {' '.join(('nvidia-smi', *arguments))}\n{RULE}\n{_printed(staged, form)}{RULE}\n"


def main() -> None:
    """Write them all anew."""
    RECORDINGS.mkdir(exist_ok=True)
    for name, text in recordings():
        (RECORDINGS / name).write_text(text)


if __name__ == "__main__":
    main()
