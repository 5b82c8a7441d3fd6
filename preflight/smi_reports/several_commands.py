"""Several commands in one file: the fullest state of the GPUs, with what the others add to it. Pure."""

from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from typing import Any

from preflight import regex as re
from preflight.facts.gpu import normalize_bus_id
from preflight.probes.fact import missing
from preflight.probes.nvidia_smi.processes import parse_processes
from preflight.probes.nvidia_smi.values import NOT_HELD, parse_smi_error
from preflight.smi_reports.compute_apps import parse_mappings, parse_rows
from preflight.smi_reports.error_texts import AT_PROMPT, END_OF_ERROR, ERROR_LINE
from preflight.smi_reports.forms import (
    CSV_NAMES,
    WHICH_IS_UNKNOWN,
    build_monitor_facts,
    drop_quoted,
    list_facts,
    parse_bare_rows,
    parse_gpustat,
    parse_kernel,
    place_gpus,
    read_form,
)
from preflight.smi_reports.gpustat import ROW as GPUSTAT_ROW
from preflight.smi_reports.monitors import TOPOLOGY, parse_topology
from preflight.smi_reports.repeated_recordings import OF_SOME, is_different
from preflight.smi_reports.short_outputs import LSPCI, parse_lspci
from preflight.smi_reports.table import SHORT_BUS, find_unreachable
from preflight.smi_reports.wrapped_lines import MONITOR

Facts = dict[str, Any]

_COMMAND = re.compile(
    r"^(?:# \$ |[^\n]{0,160}?[$#%>] ?`?|\+ )((?:sudo )?(?:\S*/)?nvidia-smi(?:\.exe)?(?: [^\n]*?)?)`?$",
    re.MULTILINE,
)
_HEAD = re.compile(r"^(?:(=+NVSMI LOG=)|\|[^\S\n]*NVIDIA-SMI \d)", re.MULTILINE)
_RULE = re.compile(r"^#{8,}$", re.MULTILINE)
_MONITORS = (r"pmon\b.*", r"dmon\b.*")
_FULLEST = (r"-q -x|-x -q|-qx", r"-q", r"", r"--query-gpu=\S+.*", r"-L|--list-gpus", *_MONITORS)


def read_capture(text: str) -> Facts | None:
    """Return the facts of a text of one host; None where no form is known. Raises ValueError."""
    sections = _sections(text)
    facts = _fullest(sections) or read_form(text)
    if facts is None:
        return None
    gpus = facts.get("gpus")
    excuse = _last_words(text, gpus) if isinstance(gpus, list) else None
    return {**_with_more(facts, text, sections), **({"driver": excuse} if excuse else {})}


_PROSE = re.compile(r"(?:[A-Za-z']+,? ){4}[a-z]+")


def _last_words(text: str, gpus: list[Facts]) -> Facts | None:
    """Return the error that a later call of nvidia-smi printed, behind the GPUs that it listed before.

    One that an author writes a sentence above, that is of a GPU that no list has, or that was printed in a
    container or on another host, is of no later call.
    """
    *_, found = [None, *re.finditer(ERROR_LINE, text, re.MULTILINE)]
    if found is None or isinstance(_read(text[found.end() :]).get("gpus"), list):
        return None
    above = [line for line in text[: found.start()].split("\n") if line.strip()]
    below = [*takewhile(lambda line: not line.startswith(("|", "+")), reversed(above))]
    is_told = any(_PROSE.search(line) and not AT_PROMPT.match(line) for line in above[-2:])
    is_told |= any(map(OF_SOME.search, below)) and not any(map(OF_SOME.search, above[: -len(below)]))
    words = END_OF_ERROR.split(text[found.start() :], maxsplit=1)[0]
    is_of_other = words.lstrip().startswith("Unable") and not any(
        str(gpu["pci_bus_id"]).endswith(bus[-SHORT_BUS:]) for bus in find_unreachable(words) for gpu in gpus
    )
    at_prompt = words.lstrip().startswith("No d") and above and AT_PROMPT.match(above[-1])
    is_of_other |= bool(at_prompt) and "smi" not in above[-1]  # adb and others print these words, too
    return None if not above or is_told or is_of_other else parse_smi_error(words)


def _sections(text: str) -> dict[str, str]:
    """Return {options: outputs} of the calls of each command that is in front of its output.

    Without commands, of a text that has the table and the text of `-q`, both.
    """
    found = list(_COMMAND.finditer(text))
    sections = dict[str, str]()
    heads = [] if found else list(_HEAD.finditer(text))
    if len({head[1] is None for head in heads}) > 1:
        ends = [*(head.start() for head in heads[1:]), len(text)]
        for head, start, end in zip(heads, [0, *ends], ends, strict=False):
            called = "-q" * (head[1] is not None)
            sections[called] = sections.get(called, "") + text[start:end]
    for at, match in enumerate(found):
        end = found[at + 1].start() if at + 1 < len(found) else len(text)
        body = _RULE.split(re.sub(r"\A\n#{8,}\n", "\n", text[match.end() : end]))[0]
        if body.strip():
            options = re.sub(r"^(?:sudo )?\S*nvidia-smi(?:\.exe)? ?", "", match[1]).strip()
            sections[options] = sections.get(options, "") + match[0] * ("-q" in options) + body
    return sections


def _fullest(sections: dict[str, str]) -> Facts | None:
    """Return what the command that says most says; None where none of these is among them."""
    if len(sections) < 2:  # one command has no other beside it
        return None
    for options in _FULLEST:
        for called, body in sections.items():
            facts = _read(body) if re.fullmatch(options, called) else {}
            if isinstance(facts.get("gpus"), list):
                return facts
    return None


def _read(body: str, read: Callable[[str], Facts | None] = read_form) -> Facts:
    with suppress(ValueError):
        return read(body) or {}
    return {}


def _with_more(facts: Facts, text: str, sections: dict[str, str]) -> Facts:
    """Return facts with lines of the kernel log, lspci's list and other lists of the same GPUs."""
    if re.search(r"NVRM: |^WARNING: infoROM", drop_quoted(text), re.MULTILINE) and "kernel_log" not in facts:
        facts.update(parse_kernel(text))
    if "pci_gpus" not in facts and re.search(LSPCI, text, re.MULTILINE):
        facts["pci_gpus"] = parse_lspci(text)
    gpus = facts.get("gpus")
    if isinstance(gpus, list):
        names = re.search(CSV_NAMES, text, re.MULTILINE | re.IGNORECASE) if "(UUID: GPU-" in text else None
        csv = text[names.start() :] if names is not None else ""
        listed = "".join(text.partition("GPU 0: ")[1:]) if "(UUID: GPU-" in text else ""
        bodies = [
            body for called, body in sections.items() if re.match("pmon|dmon|--query-gpu=|-q|$", called)
        ]
        lists = list_facts(listed) if listed else {}
        rows = _read(text, parse_bare_rows) if any(gpu["name"] == NOT_HELD for gpu in gpus) else {}
        is_watched = WHICH_IS_UNKNOWN not in str(gpus[-1]) and re.search(MONITOR, text, re.MULTILINE)
        watched = _read(text, build_monitor_facts) if is_watched else {}
        for read in (_read(csv), lists, *map(_read, bodies), watched, rows):
            others = read.get("gpus")
            if isinstance(others, list) and _are_same(gpus, others):
                _take_over(gpus, others)
                facts["driver"] = read["driver"] if facts.get("driver") == NOT_HELD else facts["driver"]
        if re.search(GPUSTAT_ROW, text, re.MULTILINE):
            shown = parse_gpustat(text)["gpus"]
            gpus += shown[len(gpus) :] if _are_same(gpus, shown[: len(gpus)]) else []
        _add_processes(gpus, text)
        is_cut = bool(gpus) and "has at least" in str(gpus[-1]["processes"])
        matrix = _read(text, parse_topology) if is_cut and re.search(TOPOLOGY, text, re.MULTILINE) else {}
        count = len(matrix.get("gpu", ()))
        if count > len(gpus) and [gpu["index"] for gpu in gpus] == [*range(len(gpus))]:
            reason = f"topo -m in the file has {count} GPUs, and what lists them {len(gpus)}"
            facts["gpus"] = gpus = place_gpus(gpus, [*range(len(gpus))], count, reason)
        *_, start = [0, *(head.start() for head in _HEAD.finditer(text))]
        _add_holders(gpus, parse_mappings(text[start:]))  # those before may have ended
    return facts


def _are_same(gpus: list[Facts], others: list[Facts]) -> bool:
    """Whether two lists are of the same GPUs, as far as both say what theirs are."""
    if len(gpus) != len(others):
        return False
    for gpu, other in zip(gpus, others, strict=True):
        for name in ("name", "uuid", "pci_bus_id"):
            one, two = gpu[name], other[name]
            if isinstance(one, str) and isinstance(two, str) and is_different(one, two):
                return False
    return True


def _take_over(gpus: list[Facts], others: list[Facts]) -> None:
    """Take over what GPUs lack: facts, names that a table cuts, and capabilities that are printed."""
    for gpu, other in zip(gpus, others, strict=True):
        is_longer = str(gpu["name"]).endswith("...") and isinstance(other["name"], str)
        taken = [name for name, value in gpu.items() if _is_lacking(value) and not _is_lacking(other[name])]
        if "processes" in taken and not _is_lacking(other["memory"]):
            taken.append("memory")  # of the same moment
        gpu.update({name: other[name] for name in taken})
        if is_longer:
            gpu["name"] = other["name"]
        if isinstance(other["capability"], list):
            gpu["capability"] = other["capability"]


def _is_lacking(value: Any) -> bool:
    """Whether a text does not hold a value: what it says of it, as `[N/A]`, counts."""
    return isinstance(value, dict) and value.get("code") == NOT_HELD["code"]


_GPU_COLUMNS = {"gpu_uuid": "uuid", "gpu_bus_id": "pci_bus_id"}  # of `--query-compute-apps`, and facts


def _add_processes(gpus: list[Facts], text: str) -> None:
    """Put processes of `--query-compute-apps` on the GPUs that they name, or on the only one."""
    rows = (parse_rows(text) if "pid" in text else None) or []
    column = next((one for one in _GPU_COLUMNS if rows and one in rows[0]), "")
    for gpu in gpus if rows else ():
        name = gpu[_GPU_COLUMNS[column]] if column else ""
        if not isinstance(gpu["processes"], dict) or not isinstance(name, str):
            continue
        own = [row for row in rows if _as_key(row.get(column, "")) == _as_key(name)]
        if column or len(gpus) == 1:
            gpu["processes"] = parse_processes({"processes": {"process_info": own}})
        elif _is_lacking(gpu["processes"]):
            pids = ", ".join(row["pid"] for row in rows[:20])
            gpu["processes"] = missing(f"the file lists pid {pids}, and not on which GPU", "not-asked")


def _as_key(name: str) -> str:
    """Return a UUID or a bus in one spelling."""
    return normalize_bus_id(name) or name.lower()


_UNEXPLAINED_MIB = 1024  # as of `expect:`; a desktop takes less


def _add_holders(gpus: list[Facts], mapped: dict[int, dict[int, str]]) -> None:
    """Put those that `fuser` and `lsof` name on GPUs whose memory the listed processes do not explain."""
    with_list = [gpu for gpu in gpus if mapped and isinstance(gpu["processes"], list)]
    known = {process["pid"] for gpu in with_list for process in gpu["processes"]}
    for gpu in with_list:
        sizes = [process["used_mib"] for process in gpu["processes"]]
        used = gpu["memory"].get("used_mib", 0)
        if all(isinstance(size, int) for size in sizes) and used - sum(sizes) > _UNEXPLAINED_MIB:
            number = gpu["minor"] if isinstance(gpu["minor"], int) else gpu["index"]
            gpu["processes"] += [
                {"pid": pid, "kind": "compute", "used_mib": NOT_HELD, "name": name}
                for pid, name in mapped.get(number, {}).items()
                if pid not in known
            ]
