"""`nvidia-smi -q` and the plain table of `nvidia-smi`, rendered from the stand-in's own `-q -x`."""

import textwrap
from collections.abc import Iterator
from xml.etree import ElementTree as ET

LABEL_WIDTH = 38  # where nvidia-smi puts the colon of a line
INDENT = 4

# Elements whose label is not their own name with capitals; "parent/element" wins over "element".
LABELS = {
    "current_mig": "Current",
    "pending_mig": "Pending",
    "current_dm": "Current",
    "pending_dm": "Pending",
    "current_ecc": "Current",
    "pending_ecc": "Pending",
    "mig_mode": "MIG Mode",
    "mig_device": "MIG Device",
    "gpu_instance_id": "GPU Instance ID",
    "compute_instance_id": "Compute Instance ID",
    "serial": "Serial Number",
    "uuid": "GPU UUID",
    "vbios_version": "VBIOS Version",
    "multigpu_board": "MultiGPU Board",
    "board_id": "Board ID",
    "inforom_version": "Inforom Version",
    "img_version": "Image Version",
    "gsp_firmware_version": "GSP Firmware Version",
    "gpu_reset_status": "GPU Reset Status",
    "drain_and_reset_recommended": "Drain and Reset Recommended",
    "gpu_recovery_action": "GPU Recovery Action",
    "pci": "PCI",
    "pci_device_id": "Device Id",
    "pci_bus_id": "Bus Id",
    "pci_sub_system_id": "Sub System Id",
    "pci_gpu_link_info": "GPU Link Info",
    "pcie_gen": "PCIe Generation",
    "link_widths": "Link Width",
    "max_link_gen": "Max",
    "current_link_gen": "Current",
    "max_device_link_gen": "Device Max",
    "max_link_width": "Max",
    "current_link_width": "Current",
    "replay_counter": "Replays Since Reset",
    "fb_memory_usage": "FB Memory Usage",
    "bar1_memory_usage": "BAR1 Memory Usage",
    "clocks_event_reason_gpu_idle": "Idle",
    "clocks_event_reason_sw_power_cap": "SW Power Cap",
    "clocks_event_reason_hw_slowdown": "HW Slowdown",
    "clocks_event_reason_hw_thermal_slowdown": "HW Thermal Slowdown",
    "clocks_event_reason_hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "clocks_event_reason_sw_thermal_slowdown": "SW Thermal Slowdown",
    "clocks_event_reason_display_clocks_setting": "Display Clock Setting",
    "gpu_util": "Gpu",
    "memory_util": "Memory",
    "encoder_util": "Encoder",
    "decoder_util": "Decoder",
    "jpeg_util": "JPEG",
    "ofa_util": "OFA",
    "ecc_mode": "ECC Mode",
    "ecc_errors": "ECC Errors",
    "single_bit": "Single Bit",
    "double_bit": "Double Bit",
    "cbu": "CBU",
    "l1_cache": "L1 Cache",
    "l2_cache": "L2 Cache",
    "multiple_single_bit_retirement": "Single Bit ECC",
    "double_bit_retirement": "Double Bit ECC",
    "pending_retirement": "Pending Page Blacklist",
    "remapped_row_corr": "Correctable Error",
    "remapped_row_unc": "Uncorrectable Error",
    "remapped_row_pending": "Pending",
    "remapped_row_failure": "Remapping Failure Occurred",
    "row_remapper_histogram": "Bank Remap Availability Histogram",
    "gpu_temp": "GPU Current Temp",
    "gpu_temp_tlimit": "GPU T.Limit Temp",
    "gpu_temp_max_threshold": "GPU Shutdown Temp",
    "gpu_temp_slow_threshold": "GPU Slowdown Temp",
    "gpu_temp_max_gpu_threshold": "GPU Max Operating Temp",
    "gpu_temp_max_tlimit_threshold": "GPU Shutdown T.Limit Temp",
    "gpu_temp_slow_tlimit_threshold": "GPU Slowdown T.Limit Temp",
    "gpu_temp_max_gpu_tlimit_threshold": "GPU Max Operating T.Limit Temp",
    "memory_temp": "Memory Current Temp",
    "gpu_temp_max_mem_threshold": "Memory Max Operating Temp",
    "gpu_temp_max_mem_tlimit_threshold": "Memory Max Operating T.Limit Temp",
    "gpu_power_readings": "GPU Power Readings",
    "graphics_clock": "Graphics",
    "sm_clock": "SM",
    "mem_clock": "Memory",
    "video_clock": "Video",
    "cliqueId": "CliqueId",
    "clusterUuid": "ClusterUUID",
    "pid": "Process ID",
    "process_info/gpu_instance_id": "GPU instance ID",
    "process_info/compute_instance_id": "Compute instance ID",
    "process_name": "Name",
    "used_memory": "Used GPU Memory",
}
PREFIXES = ("clocks_event_reason_", "row_remapper_histogram_", "remapped_row_")
BELOW_ANOTHER = {"hw_thermal_slowdown", "hw_power_brake_slowdown"}  # printed under "HW Slowdown"
UNPRINTED = {"power_state"}  # in the XML of gpu_power_readings only
TABLE_WIDTHS = (41, 24, 22)


def query_text(xml: str) -> str:
    """Return `nvidia-smi -q` for the XML of the same moment."""
    log = _parse(xml)
    lines = ["", "=" * 14 + "NVSMI LOG" + "=" * 14, ""]
    lines += [
        _line("Timestamp", log.findtext("timestamp") or "", 0),
        _line("Driver Version", log.findtext("driver_version") or "", 0),
        _line("CUDA Version", log.findtext("cuda_version") or "", 0),
        "",
        _line("Attached GPUs", log.findtext("attached_gpus") or "", 0),
    ]
    for gpu in log.findall("gpu"):
        lines.append("GPU " + (gpu.get("id") or ""))
        for element in gpu:
            lines += _element(element, "gpu", INDENT)
        lines.append("")
    return "\n".join(lines) + "\n"


def table_text(xml: str) -> str:
    """Return the table of plain `nvidia-smi` for the XML of the same moment, as driver 550 draws it."""
    log = _parse(xml)
    driver, cuda = log.findtext("driver_version") or "", log.findtext("cuda_version") or ""
    full = sum(TABLE_WIDTHS) + 2
    rule = "+" + "+".join("-" * width for width in TABLE_WIDTHS) + "+"
    head = f" NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8}"
    lines = [log.findtext("timestamp") or "", f"+{'-' * full}+", f"|{head:<{full}}|", "|" + rule[1:-1] + "|"]
    lines += [
        _row(
            " GPU  Name                 Persistence-M ", " Bus-Id          Disp.A ", " Volatile Uncorr. ECC "
        ),
        _row(
            " Fan  Temp   Perf          Pwr:Usage/Cap ", "           Memory-Usage ", " GPU-Util  Compute M. "
        ),
        _row("", "", "               MIG M. "),
        "|" + rule[1:-1].replace("-", "=") + "|",
    ]
    gpus = log.findall("gpu")
    for index, gpu in enumerate(gpus):
        lines += [*_gpu_rows(index, gpu), rule]
    lines += ["", f"+{'-' * full}+", f"|{' Processes:':<{full}}|"]
    for head in (
        "  GPU   GI   CI        PID   Type   Process name                              GPU Memory ",
        "        ID   ID                                                               Usage      ",
    ):
        lines.append(f"|{head:<{full}}|")
    lines.append(f"|{'=' * full}|")
    rows = [row for index, gpu in enumerate(gpus) for row in _process_rows(index, gpu)]
    lines += [f"|{row:<{full}}|" for row in rows or ["  No running processes found"]]
    return "\n".join([*lines, f"+{'-' * full}+"]) + "\n"


def _parse(xml: str) -> ET.Element:
    return ET.fromstring(xml[xml.index("<nvidia_smi_log") :])


def _label(name: str, parent: str) -> str:
    known = LABELS.get(f"{parent}/{name}") or LABELS.get(name)
    if known:
        return known
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    words = name.split("_")
    return " ".join(word.upper() if word in ("sram", "dram") else word.capitalize() for word in words)


def _line(label: str, value: str, indent: int) -> str:
    return f"{' ' * indent}{label:<{LABEL_WIDTH + 4 - indent}}: {value}"


def _element(element: ET.Element, parent: str, indent: int) -> Iterator[str]:
    name, children = element.tag, list(element)
    if name in UNPRINTED or (name == "mig_devices" and not children):
        return
    if name == "processes":
        yield from _processes(element, indent)
    elif name == "mig_devices":
        for device in children:
            yield from _element(device, name, indent)
    elif len(children) == 1 and children[0].tag == "retired_count":
        yield _line(_label(name, parent), children[0].text or "", indent)
    elif children:
        yield " " * indent + _label(name, parent)
        for child in children:
            yield from _element(child, name, indent + INDENT)
    else:
        deeper = INDENT if name.removeprefix(PREFIXES[0]) in BELOW_ANOTHER else 0
        yield _line(_label(name, parent), element.text or "", indent + deeper)


def _processes(element: ET.Element, indent: int) -> Iterator[str]:
    rows = element.findall("process_info")
    if not rows:
        text = (element.text or "").strip()
        yield _line("Processes", text or "None", indent)
        return
    yield " " * indent + "Processes"
    for row in rows:
        for child in row:
            deeper = 0 if child.tag in ("gpu_instance_id", "compute_instance_id", "pid") else INDENT
            yield _line(_label(child.tag, row.tag), child.text or "", indent + INDENT + deeper)


def _row(*cells: str) -> str:
    padded = (f"{cell:<{width}}" for cell, width in zip(cells, TABLE_WIDTHS, strict=True))
    return "|" + "|".join(padded) + "|"


def _value(gpu: ET.Element, path: str, default: str = "N/A") -> str:
    return (gpu.findtext(path) or "").strip() or default


def _short(gpu: ET.Element, path: str) -> str:
    """Return a value as a cell shows it: `72.31 W` is `72W`, `27 C` is `27C`."""
    number, _, unit = _value(gpu, path).partition(" ")
    return number.partition(".")[0] + unit if unit in ("W", "C", "%", "MiB") else number


def _volatile_errors(gpu: ET.Element) -> str:
    if _value(gpu, "ecc_mode/current_ecc") != "Enabled":
        return "Off" if _value(gpu, "ecc_mode/current_ecc") == "Disabled" else "N/A"
    paths = ("sram_uncorrectable", "dram_uncorrectable", "double_bit/total")
    counts = [_value(gpu, f"ecc_errors/volatile/{path}") for path in paths]
    return str(sum(int(count) for count in counts if count.isdigit()))


def _gpu_rows(index: int, gpu: ET.Element) -> Iterator[str]:
    name = textwrap.shorten(_value(gpu, "product_name"), 30, placeholder="...")
    persistence = "On" if _value(gpu, "persistence_mode") == "Enabled" else "Off"
    display = "On" if _value(gpu, "display_active") == "Enabled" else "Off"
    bus, mode = _value(gpu, "pci/pci_bus_id"), _value(gpu, "compute_mode")
    yield _row(
        f" {index:>3}  {name:<30}{persistence:>3}  ",
        f"   {bus} {display:>3} ",
        f" {_volatile_errors(gpu):>20} ",
    )
    power = (
        f"{_short(gpu, 'gpu_power_readings/power_draw')} / "
        f"{_short(gpu, 'gpu_power_readings/current_power_limit'):>5}"
    )
    used, total = (_short(gpu, f"fb_memory_usage/{part}") for part in ("used", "total"))
    short_mode = {"Exclusive_Process": "E. Process", "Exclusive_Thread": "E. Thread"}.get(mode, mode)
    state = f"{_short(gpu, 'fan_speed'):>4}{_short(gpu, 'temperature/gpu_temp'):>6}    "
    state += f"{_value(gpu, 'performance_state'):<4} {power:>21} "
    yield _row(
        state, f"{used:>11} / {total:>9} ", f" {_short(gpu, 'utilization/gpu_util'):>7} {short_mode:>12} "
    )
    yield _row("", "", f" {_value(gpu, 'mig_mode/current_mig'):>20} ")


def _process_rows(index: int, gpu: ET.Element) -> Iterator[str]:
    for row in gpu.findall("processes/process_info"):
        parts = [_value(row, name) for name in ("gpu_instance_id", "compute_instance_id", "pid", "type")]
        name = _value(row, "process_name")
        shown = name if len(name) <= 40 else "..." + name[-37:]
        instance, compute, pid, kind = parts
        used = _short(row, "used_memory")
        yield f"{index:>5}{instance:>6}{compute:>5}{pid:>10}{kind:>7}   {shown:<41}{used:>11} "
