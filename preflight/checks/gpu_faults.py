"""Faults that the driver and the kernel report: recovery actions and Xids."""

from collections.abc import Iterator
from itertools import takewhile

from preflight.checks.finding import Problem, Severity
from preflight.checks.message_text import round_duration
from preflight.checks.registry import host_check
from preflight.checks.unread_facts import judge_each_gpu
from preflight.facts.gpu import Gpu, normalize_bus_id
from preflight.facts.host import HostFacts, KernelLog, Xid
from preflight.facts.missing import Missing
from preflight.facts.xid_table import RECOVERY_XID, XIDS, condemns_gpu, fix_xid, parse_recovery
from preflight.job import Expect

_RECOVERY_FIX: dict[str, str] = {
    "gpu_reset": "end its processes, then: sudo nvidia-smi --gpu-reset -i {index}",
    "node_reboot": "ask the administrator to reboot the host",
    "system_reboot": "ask the administrator to reboot the host",
    "drain_p2p": "end the jobs that use NVLink to this GPU, then ask the administrator",
    "drain_and_reset": "end all processes on the host's GPUs, then: sudo nvidia-smi --gpu-reset -i {index}",
    "bus_reset": "ask the administrator to reset the PCI bus, or power-cycle the host",
    "recover_imex": "ask the administrator to restart nvidia-imex",
    "none": "nothing to do: the driver asks for no recovery any more",
}
_NVLINK, _OFF_THE_BUS = 74, 79


@host_check("HEAL001", gpu_only=True)
@judge_each_gpu("recovery_action", "recovery action")
def no_gpu_asks_for_recovery(gpu: Gpu, action: str) -> Iterator[Problem]:
    """No GPU's driver asks for a recovery action.

    The driver knows when a GPU will fail the next job although it still lists it. The rank on it hangs or
    dies.

    Fix: what the action says: a reset (root), or a reboot.
    Source: NVML field 230, GPU recovery action (driver 570 and later); older drivers do not have it.
    """
    if action.lower() not in ("none", ""):
        fix = _RECOVERY_FIX.get(action.lower(), "ask the administrator")
        yield Problem(
            f"the driver asks for recovery: {action.replace('_', ' ')}", fix.format(index=gpu.index)
        )


@host_check("HEAL002", Severity.WARNING, gpu_only=True)
def no_xid_since_boot(facts: HostFacts, expect: Expect) -> Iterator[Problem]:
    """The kernel log holds no NVIDIA error (Xid) since boot that condemns a GPU.

    Some Xids mean that the GPU must be reset or replaced; others that a program misbehaved. The first kind
    stops a launch unless the driver says that no recovery is needed now, as Xid 154 does where it names an
    action; the second is reported for a while and stops nothing. A link error (74) beside a GPU that fell off
    the bus condemns that one alone. Where the log cannot be read but every GPU's driver says that no recovery
    is needed, that is taken for an answer.

    Fix: NVIDIA's Xid catalogue says per code; `expect: {fatal_xids: [...]}` is the site's own list.
    Source: kernel log lines "NVRM: Xid"; preflight/facts/xid_table.py, after NVIDIA's Xid catalogue.
    """
    log = facts.kernel_log
    if isinstance(log, Missing):
        yield from _unread_log(facts, log)
        return
    found: dict[tuple[str, int], list[Xid]] = {}
    for xid in log.xids:
        found.setdefault((xid.pci_bus_id, xid.code), []).append(xid)
    for (bus, code), entries in found.items():
        gpu = _gpu_at(facts, bus)
        index = None if gpu is None else gpu.index
        severity, fix = _judge(facts, log, expect, entries)
        count = max(len(entries), entries[-1].count)
        times = f"{count} times" if count > 1 else "once"
        means = XIDS.get(code, "see NVIDIA's Xid catalogue")
        yield Problem(
            f"Xid {code} ({means}) {times}{_when(facts, log, entries[-1], count)}",
            fix.format(index=bus if index is None else index),
            subject="" if index is not None else bus,
            severity=severity,
            gpu=index,
        )


def _judge(facts: HostFacts, log: KernelLog, expect: Expect, entries: list[Xid]) -> tuple[Severity, str]:
    """Return how much the Xids of one code on one GPU matter, and what to do."""
    last = entries[-1]
    bus, code, gpu = last.pci_bus_id, last.code, _gpu_at(facts, last.pci_bus_id)
    later = takewhile(lambda xid: xid is not last, reversed(log.xids))
    says = (xid.text for xid in (*later, last) if (xid.pci_bus_id, xid.code) == (bus, RECOVERY_XID))
    asked = parse_recovery(next(says, ""))
    fix = fix_xid(code, "{index}")
    if code == RECOVERY_XID:
        fix = _RECOVERY_FIX.get(asked, fix)
        entries = [last]
    if code == _NVLINK and any(xid.code == _OFF_THE_BUS and xid.pci_bus_id != bus for xid in log.xids):
        return Severity.WARNING, "nothing to do: the link ended with the other GPU, which fell off the bus"
    if any(condemns_gpu(code, xid.text, expect.fatal_xids) for xid in entries):
        if asked == "none" or (gpu is not None and gpu.needs_no_recovery):
            return Severity.WARNING, f"the driver asks for no recovery now; if it returns: {fix}"
        mute = gpu is not None and isinstance(gpu.recovery_action, Missing)
        done = "; once that is done, --ignore HEAL002: this driver does not say that it is" if mute else ""
        return Severity.CRITICAL, fix + done
    is_past = (_age(facts, last) or 0.0) > expect.recent_xid_s
    quiet = code in expect.program_xids or asked == "none" or is_past
    return Severity.INFO if quiet else Severity.WARNING, fix


def _unread_log(facts: HostFacts, log: Missing) -> Iterator[Problem]:
    if facts.known_gpus and all(gpu.needs_no_recovery for gpu in facts.known_gpus):
        yield Problem(
            f"the kernel log cannot be read ({log.reason}); the driver says that no GPU needs recovery",
            "to read it: ask the administrator to add you to group adm, or kernel.dmesg_restrict=0",
            severity=Severity.INFO,
            not_collected=log.code == "not-asked",
        )
        return
    yield Problem(
        f"whether the kernel reported GPU errors is not known: {log.reason}",
        "sudo dmesg | grep -i xid; or ask the administrator for group adm or kernel.dmesg_restrict=0; "
        "without either: ignore: [HEAL002] of this host in hosts.yaml",
        severity=Severity.UNKNOWN,
        not_collected=log.code == "not-asked",
    )


def _gpu_at(facts: HostFacts, bus: str) -> Gpu | None:
    """Return the GPU at a bus address, None where the kernel's message has none."""
    slots = {
        normalize_bus_id(gpu.pci_bus_id): gpu for gpu in facts.known_gpus if isinstance(gpu.pci_bus_id, str)
    }
    return slots.get(normalize_bus_id(bus)) if normalize_bus_id(bus) else None


def _age(facts: HostFacts, xid: Xid) -> float | None:
    if isinstance(xid.at_uptime_s, Missing) or isinstance(facts.identity, Missing):
        return None
    return max(0.0, facts.identity.uptime_s - xid.at_uptime_s)


def _when(facts: HostFacts, log: KernelLog, xid: Xid, count: int) -> str:
    """Return when an Xid was, or that the time is not known: a saved log may be of several boots."""
    age = _age(facts, xid)
    if age is None:
        return " in the saved log" if log.source == "file" else " since boot"
    return f"{', last' if count > 1 else ','} {round_duration(age)} ago"
