"""A stand-in for nvidia-smi in tests: the table, `-q`, `-q -x`, `-L`, `nvlink -s`, `--query-gpu`, and the
words of a driver that fails.

It prints the same state and the same live processes as the simulated NVML, in NVIDIA's schema v12.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.lab.silicon import smi_query
from tests.lab.silicon.compute import live_registrations, read_state, state_directory
from tests.lab.silicon.smi_rows import (
    ABSENT,
    AFTER_THROTTLE,
    BEFORE_THROTTLE,
    ECC,
    ERROR_WORDS,
    NVML_WORDS,
    OLD_ECC,
    THROTTLE_BITS,
    Row,
)
from tests.lab.silicon.smi_text import query_text, table_text

Section = dict[str, str]
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)
NO_DEVICES = "No devices were found\n"
USAGE = (
    "the stand-in knows: nvidia-smi | nvidia-smi -q | -q -x | -x -q | -L | nvlink -s |"
    " --query-gpu=FIELDS --format=csv[,noheader][,nounits]"
)
LINK_SPEEDS = {"1": "20 GB/s", "2": "25.781 GB/s", "3": "25 GB/s", "4": "26.562 GB/s", "5": "53.125 GB/s"}


def escape(text: str) -> str:
    """Return text as XML has it. xml.sax.saxutils would import urllib and email, two fifths of a start."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class Failed(Exception):
    """nvidia-smi gives up: its words, and its exit status, which is NVML's error."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


def obey(section: Section, *functions: str) -> int:
    """Wait as the profile's rules for these NVML functions say; the code that they return."""
    for function in functions:
        words = section.get("call." + function, "").split()
        while words:
            word = words.pop(0)
            if word == "hang":
                while True:
                    time.sleep(3600)
            if word == "delay":
                time.sleep(int(words.pop(0)) / 1000)
            if word == "return":
                return int(words.pop(0))
    return 0


def initialise() -> dict[str, Section]:
    """The state, or the failure that nvidia-smi prints where NVML does not start."""
    try:
        state = read_state(state_directory())
    except OSError:
        raise Failed(NO_DRIVER, 9) from None
    code = obey(state["system"], "nvmlInit")
    if code == 9:
        raise Failed(NO_DRIVER, 9)
    if code == 18:
        version = state["system"].get("nvml_version", "").partition(".")[2]
        words = "Failed to initialize NVML: " + NVML_WORDS[18]
        raise Failed(words + "\nNVML library version: " + ".".join(version.split(".")[:2]), 18)
    if code:
        raise Failed("Failed to initialize NVML: " + NVML_WORDS.get(code, "Unknown Error"), code)
    return state


def gpus_of(state: dict[str, Section]) -> Iterator[tuple[int, Section]]:
    """Every GPU with its index. Raises Failed at one whose handle cannot be had, as nvidia-smi ends there."""
    for name, section in state.items():
        if not name.startswith("gpu "):
            continue
        code = obey(section, "nvmlDeviceGetHandleByIndex")
        if code == 15:
            bus = section["pci_bus_id"][4:]
            words = "Unable to determine the device handle for GPU {}: GPU is lost.  "
            raise Failed(words.format(bus) + "Reboot the system to recover this GPU", 15)
        if code:
            words = "Unable to determine the device handle for GPU {}: {}"
            raise Failed(words.format(section["pci_bus_id"][4:], NVML_WORDS.get(code, "Unknown Error")), code)
        yield int(name.split()[1]), section


def value_text(section: Section, row: Row) -> str:
    """What nvidia-smi prints for one element."""
    _, codec, key = row
    if codec is None:
        return key
    value = section.get(key)
    if value is None:
        return ABSENT
    if value.startswith("!"):
        return ERROR_WORDS.get(int(value[1:]), "Unknown Error") if value != "!3" else ABSENT
    return codec.show(value)


def with_live_memory(section: Section, live_mib: int) -> Section:
    """The section as it is now, with the memory of live processes in use."""
    if not live_mib or section.get("memory.used_mib", "!").startswith("!"):
        return section
    used = int(section["memory.used_mib"])
    reserved = int(section.get("memory.reserved_mib", "0"))
    free = int(section.get("memory.free_mib", int(section["memory.total_mib"]) - reserved - used))
    now = {"memory.used_mib": str(used + live_mib), "memory.free_mib": str(max(0, free - live_mib))}
    return {**section, **now}


def with_free_memory(section: Section) -> Section:
    """The section with the free memory that NVML works out where the profile does not name it."""
    if "memory.free_mib" in section or section.get("memory.used_mib", "!").startswith("!"):
        return section
    taken = int(section["memory.used_mib"]) + int(section.get("memory.reserved_mib", "0"))
    return {**section, "memory.free_mib": str(int(section["memory.total_mib"]) - taken)}


class Writer:
    """Elements by path: opens and closes parents as the paths of its rows need them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._open: list[str] = []

    def to(self, parents: list[str]) -> None:
        """Close and open until exactly these parents are open."""
        while self._open and self._open != parents[: len(self._open)]:
            self._line(f"</{self._open.pop()}>")
        for parent in parents[len(self._open) :]:
            self._line(f"<{parent}>")
            self._open.append(parent)

    def put(self, path: str, text: str) -> None:
        """One element with its text."""
        *parents, name = path.split("/")
        self.to(parents)
        self._line(f"<{name}>{escape(text)}</{name}>")

    def _line(self, text: str) -> None:
        self.lines.append("\t" * (len(self._open) + 2) + text)


def _throttle(writer: Writer, section: Section) -> None:
    value = section.get("throttle_reasons")
    for name, bit in THROTTLE_BITS:
        path = "clocks_event_reasons/clocks_event_reason_" + name
        if value is None or value.startswith("!"):
            writer.put(path, value_text(section, (path, None, ABSENT)))
        else:
            writer.put(path, "Active" if int(value, 0) & bit else "Not Active")


def _mig_devices(writer: Writer, migs: list[Section]) -> None:
    for index, mig in enumerate(migs):
        writer.to(["mig_devices"])
        writer.put("mig_devices/mig_device/index", str(index))
        writer.put("mig_devices/mig_device/gpu_instance_id", mig["gpu_instance"])
        writer.put("mig_devices/mig_device/compute_instance_id", mig["compute_instance"])
        for name in ("total", "reserved", "used", "free"):
            text = with_free_memory(mig).get(f"memory.{name}_mib", "0")
            writer.put("mig_devices/mig_device/fb_memory_usage/" + name, text + " MiB")


def _process(writer: Writer, words: list[str]) -> None:
    pid, kind, mib, gpu_instance, compute_instance, name = words
    path = "processes/process_info/"
    writer.put(path + "gpu_instance_id", ABSENT if gpu_instance == "-" else gpu_instance)
    writer.put(path + "compute_instance_id", ABSENT if compute_instance == "-" else compute_instance)
    writer.put(path + "pid", pid)
    writer.put(path + "type", kind)
    writer.put(path + "process_name", name)
    writer.put(path + "used_memory", ABSENT if mib == "-" else mib + " MiB")
    writer.to(["processes"])


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words if word)


def processes_of(section: Section) -> list[list[str]] | None:
    """Listed and live processes as words, or None where the driver cannot list them."""
    if section.get("processes", "!").startswith("!"):
        return None
    rows = [value.split(" ", 5) for key, value in section.items() if key.startswith("process.")]
    live = [one for one in live_registrations(state_directory()) if one.gpu == section["uuid"]]
    return rows + [[str(one.pid), one.kind, str(one.mib), "-", "-", _command(one.pid)] for one in live]


def as_it_is_now(section: Section) -> Section:
    """The section with the memory that live processes hold."""
    live = sum(one.mib for one in live_registrations(state_directory()) if one.gpu == section["uuid"])
    return with_live_memory(with_free_memory(section), live)


def gpu_xml(section: Section, migs: list[Section]) -> list[str]:
    """The lines of one <gpu>."""
    now = as_it_is_now(section)
    writer = Writer()
    for row in BEFORE_THROTTLE:
        if row[0] == "mig_devices" and migs:
            _mig_devices(writer, migs)
        else:
            writer.put(row[0], value_text(now, row))
    _throttle(writer, now)
    old = "ecc.volatile.corrected.register" in now
    for row in AFTER_THROTTLE:
        if row in ECC and old:
            continue
        if row is AFTER_THROTTLE[AFTER_THROTTLE.index(ECC[-1]) + 1] and old:
            for old_row in OLD_ECC:
                writer.put(old_row[0], value_text(now, old_row))
        writer.put(row[0], value_text(now, row))
    processes = processes_of(now)
    if processes is None:
        writer.put("processes", ABSENT)
    else:
        writer.to(["processes"])
        for words in processes:
            _process(writer, words)
    writer.to([])
    return ['\t<gpu id="{}">'.format(escape(now["pci_bus_id"])), *writer.lines, "\t</gpu>"]


def query_xml() -> str:
    """`nvidia-smi -q -x`."""
    state = initialise()
    system = state["system"]
    gpus = list(gpus_of(state))
    cuda = system.get("cuda_version", "0")
    version = f"{int(cuda, 0) // 1000}.{int(cuda, 0) % 1000 // 10}" if cuda[0] != "!" else ABSENT
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "<nvidia_smi_log>",
        "\t<timestamp>{}</timestamp>".format(time.strftime("%a %b %d %H:%M:%S %Y")),
        "\t<driver_version>{}</driver_version>".format(escape(system.get("driver_version", ABSENT))),
        f"\t<cuda_version>{version}</cuda_version>",
        f"\t<attached_gpus>{len(gpus)}</attached_gpus>",
    ]
    for index, section in gpus:
        prefix = f"mig {index} "
        lines += gpu_xml(section, [mig for name, mig in state.items() if name.startswith(prefix)])
    return "\n".join([*lines, "</nvidia_smi_log>"]) + "\n"


def query_csv(fields: list[str], words: frozenset[str]) -> str:
    """`nvidia-smi --query-gpu=FIELDS --format=csv`."""
    state = initialise()
    gpus = [(index, as_it_is_now(section)) for index, section in gpus_of(state)]
    return smi_query.rows(fields, words, gpus, state["system"]) if gpus else NO_DEVICES


def list_gpus() -> str:
    """`nvidia-smi -L`."""
    state = initialise()
    lines = []
    for index, section in gpus_of(state):
        lines.append("GPU {}: {} (UUID: {})".format(index, section["name"], section["uuid"]))
        migs = [mig for name, mig in state.items() if name.startswith(f"mig {index} ")]
        for at, mig in enumerate(migs):
            short = mig["name"].partition("MIG ")[2] or mig["name"]
            lines.append("  MIG {:<12} Device {:>2}: (UUID: {})".format(short, at, mig["uuid"]))
    return "\n".join(lines) + "\n" if lines else NO_DEVICES


def link_states() -> str:
    """`nvidia-smi nvlink -s`."""
    lines = []
    for index, section in gpus_of(initialise()):
        lines.append("GPU {}: {} (UUID: {})".format(index, section["name"], section["uuid"]))
        speed = LINK_SPEEDS.get(section.get("nvlink.version", ""), "25 GB/s")
        for link in range(int(section.get("nvlink.count", "0"))):
            active = section.get(f"nvlink.{link}.active", "1") == "1"
            lines.append(f"\t Link {link}: {speed if active else '<inactive>'}")
    return "\n".join(lines) + "\n" if lines else NO_DEVICES


PRINTED = {
    (): lambda: table_text(query_xml()),
    ("-q",): lambda: query_text(query_xml()),
    ("--query",): lambda: query_text(query_xml()),
    ("-q", "-x"): query_xml,
    ("--query", "--xml-format"): query_xml,
    ("--xml-format", "-q"): query_xml,
    ("-L",): list_gpus,
    ("--list-gpus",): list_gpus,
    ("-s", "nvlink"): link_states,
}
"""What is printed for which arguments, sorted."""


def main(arguments: list[str]) -> int:
    """Print, and return nvidia-smi's exit status."""
    printed = PRINTED.get(tuple(sorted(arguments)))
    try:
        if printed:
            text = printed()
        elif query := smi_query.parse(arguments):
            text = query_csv(*query)
        else:
            sys.stderr.write(USAGE + "\n")
            return 2
    except smi_query.BadQuery as refused:
        sys.stdout.write(f"{refused}\n")
        return 2
    except Failed as failure:
        sys.stdout.write(f"{failure}\n")
        return failure.status
    sys.stdout.write(text)
    return 6 if text == NO_DEVICES else 0
