"""The words of the table's cells. Text from hosts becomes one harmless line in this module. Pure."""

from collections import Counter
from collections.abc import Sequence

from launcher.text import one_line
from launcher.top.views import SERIOUS_THROTTLE, GpuView, HostView, RunView
from preflight.checks.message_text import round_duration
from preflight.leftovers.classify import ENDED_AFTER_YES, ENDED_BY_DEFAULT, ProcessClass

_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"
_LETTERS = {
    "sw_power_cap": "p",
    "hw_slowdown": "H",
    "sw_thermal": "T",
    "hw_thermal": "T",
    "hw_power_brake": "B",
    "sync_boost": "s",
    "applications_clocks": "a",
    "display_clocks": "d",
}
"""Of each throttle reason; capital letters are those that slow a GPU down against its owner's wish."""
_ALARM = 90.0  # memory from this share on (percent) is coloured


def draw_bar(percent: float | None, width: int) -> str:
    """Return a bar in eighths of a column."""
    if percent is None or width <= 0:
        return " " * max(0, width)
    eighths = round(min(100.0, max(0.0, percent)) / 100.0 * width * 8)
    full, part = divmod(eighths, 8)
    return (_FULL * full + (_PARTS[part] if part else "")).ljust(width)


def format_percent(value: float | None) -> str:
    """Return a whole percentage, "?" where it is not known."""
    return "?" if value is None else f"{value:.0f}%"


def calculate_memory_percent(gpu: GpuView) -> float | None:
    """Return the share of its memory that is used."""
    if gpu.used_mib is None or not gpu.total_mib:
        return None
    return 100.0 * gpu.used_mib / gpu.total_mib


def format_memory(gpu: GpuView) -> str:
    """Return used of total memory in GiB."""
    used = "?" if gpu.used_mib is None else f"{gpu.used_mib / 1024:.1f}"
    total = "?" if gpu.total_mib is None else f"{gpu.total_mib / 1024:.0f}"
    return f"{used}/{total}G"


def format_power(gpu: GpuView) -> str:
    """Return watts of the allowed watts."""
    if gpu.power_w is None:
        return "?"
    return f"{gpu.power_w:.0f}" + (f"/{gpu.power_limit_w:.0f}" if gpu.power_limit_w else "")


def format_temperature(gpu: GpuView) -> str:
    """Return degrees Celsius."""
    return "?" if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}"


def format_throttle(gpu: GpuView) -> tuple[str, bool]:
    """Return letters, and whether one of the reasons is serious. "idle" has no letter."""
    if gpu.throttle is None:
        return "?", False
    letters = "".join(dict.fromkeys(_LETTERS.get(name, "") for name in gpu.throttle))
    return letters or "-", bool(SERIOUS_THROTTLE.intersection(gpu.throttle))


def is_nearly_full(gpu: GpuView) -> bool:
    """Return whether hardly any memory is left."""
    return (calculate_memory_percent(gpu) or 0.0) >= _ALARM


def describe_holder(gpu: GpuView) -> tuple[str, str, str, str]:
    """Return (user, age, class, command) of who holds a GPU first; the command counts the others."""
    if not gpu.holders:
        return _nobody(gpu)
    first, *others = gpu.holders
    more = f" and {len(others)} more" if others else ""
    age = "" if first.age_s is None else round_duration(first.age_s)
    kind = "?" if first.kind is None else first.kind.value
    return one_line(first.user, 32) or "?", age, kind, one_line(first.command, 120) + more


def _nobody(gpu: GpuView) -> tuple[str, str, str, str]:
    if gpu.problem:
        return "", "", "unusable", one_line(gpu.problem, 120)
    if gpu.claimed_by is not None:
        user, run_id = gpu.claimed_by
        return one_line(user, 32), "", "claimed", f"by run {one_line(run_id, 100)}" if run_id else "by a run"
    return ("", "", "?", "who holds it cannot be seen") if gpu.held is None else ("", "", "free", "")


def choose_kind_style(gpu: GpuView) -> str:
    """Return the style of the class: what clean-zombies would end is red."""
    if not gpu.holders:
        return "green" if gpu.free else "yellow"
    found = gpu.holders[0].kind
    if found in ENDED_BY_DEFAULT or found in ENDED_AFTER_YES or found is ProcessClass.STUCK:
        return "bold red"
    return "yellow" if found in (None, ProcessClass.SUSPECT) else ""


def describe_host(host: HostView) -> tuple[str, str]:
    """Return what is said of a host as a whole, and its style."""
    note = one_line(host.note, 160)
    if host.phase == "connecting":
        return "connecting ...", "dim"
    if host.phase == "lost":
        return f"lost{format_age(host)}: {note}{_retry(host)}", "yellow"
    if host.phase == "silent":
        return f"no answer{format_age(host)}", "yellow"
    if host.gpus:
        return note, "yellow"
    return note or "no GPU", "dim" if note.startswith("no GPU") else "yellow"


def fold_cells(host: HostView) -> tuple[tuple[str, ...], str]:
    """Return the cells of a host whose GPUs are one line, and their style.

    They are what is on how many GPUs, their mean use, memory, temperatures, throttling, users, and a note.
    """
    gpus = host.gpus
    kinds = Counter("unknown" if kind == "?" else kind for kind in (describe_holder(gpu)[2] for gpu in gpus))
    counts = "all free" if host.idle else ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    busy = [gpu.busy_percent for gpu in gpus if gpu.busy_percent is not None]
    letters = "".join(
        dict.fromkeys(letter for gpu in gpus for letter in format_throttle(gpu)[0] if letter.isupper())
    )
    users = dict.fromkeys(one_line(each.user, 32) for gpu in gpus for each in gpu.holders if each.user)
    styles = {choose_kind_style(gpu) for gpu in gpus}
    worst = next((style for style in ("bold red", "yellow", "green") if style in styles), "")
    return (
        f"{counts}: {_models(gpus)}",
        format_percent(sum(busy) / len(busy) if len(busy) == len(gpus) else None),
        _sum_of_memory(gpus),
        _degrees(gpus),
        letters,
        " ".join(users),
        one_line(host.note, 160),
    ), "bold red" if letters else "" if worst == "green" and not host.idle else worst


def _sum_of_memory(gpus: Sequence[GpuView]) -> str:
    used = [gpu.used_mib for gpu in gpus if gpu.used_mib is not None]
    total = sum(gpu.total_mib or 0.0 for gpu in gpus)
    shown = f"{sum(used) / 1024:.1f}" if len(used) == len(gpus) else "?"
    return f"{shown}/{total / 1024:.0f}G"


def _models(gpus: Sequence[GpuView]) -> str:
    counts = Counter(gpu.model or "GPU" for gpu in gpus)
    return one_line(", ".join(f"{count}x {model}" for model, count in counts.items()), 60)


def _degrees(gpus: Sequence[GpuView]) -> str:
    """Return the range of temperatures; "" where none is known."""
    known = [gpu.temperature_c for gpu in gpus if gpu.temperature_c is not None]
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(known), max(known))) if known else {}
    return f"{'-'.join(ends)} °C" if ends else ""


def format_age(host: HostView) -> str:
    """Return how old a host's last answer is, with a space in front."""
    return "" if host.age_s is None else f" for {round_duration(host.age_s)}"


def _retry(host: HostView) -> str:
    if host.retry_s is None:
        return ""
    return f"; next attempt in {host.retry_s:.0f} s" if host.retry_s else "; connecting again"


def run_cells(run: RunView) -> tuple[str, ...]:
    """Return (run, state, step, loss, ETA, hosts, GPUs, output) of a run."""
    step = "-" if run.step is None else str(run.step) + (f"/{run.steps}" if run.steps is not None else "")
    hosts = run.hosts[0] if len(run.hosts) == 1 else f"{len(run.hosts)} hosts"
    output = "-" if run.output_age_s is None else f"{round_duration(run.output_age_s)} ago"
    return (
        one_line(run.run_id, 80),
        run.state,
        step,
        "-" if run.loss is None else f"{run.loss:.4g}",
        "-" if run.eta_s is None else round_duration(run.eta_s),
        one_line(hosts, 40),
        str(run.gpu_count),
        output,
    )
