"""What a text of one host looks like, and who reads it: each reader gives facts by name. Pure.

Every form becomes the tree that `nvidia-smi -q -x` would give, and `preflight.probes.nvidia_smi` turns trees
into facts, so that a file and a live host are read by the same code.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from preflight import regex as re
from preflight.probes.fact import missing
from preflight.probes.kernel_log_parser import parse_kernel_log
from preflight.probes.nvidia_smi.tree import parse_driver, parse_gpus
from preflight.probes.nvidia_smi.values import (
    CUT,
    NO_PROGRAM,
    NOT_HELD,
    convert_value,
    find_text,
    parse_whole,
)
from preflight.probes.nvidia_smi.xmldoc import parse_xml
from preflight.smi_reports import repeated_recordings, table
from preflight.smi_reports.compute_apps import ASKED, BARE_ROW, build_facts
from preflight.smi_reports.error_texts import ERROR_LINE, OF_CONTAINER, note_facts, parse_error
from preflight.smi_reports.gpustat import JSON as GPUSTAT_JSON
from preflight.smi_reports.gpustat import ROW as GPUSTAT_ROW
from preflight.smi_reports.gpustat import parse_document, parse_rows
from preflight.smi_reports.headerless_csv import ROW, parse_headerless
from preflight.smi_reports.identities import mark_cut_values
from preflight.smi_reports.monitors import TOPOLOGY, parse_monitor, parse_topology
from preflight.smi_reports.nvitop import HEAD as NVITOP
from preflight.smi_reports.nvitop import parse_nvitop
from preflight.smi_reports.qtext import parse_q
from preflight.smi_reports.query_csv import parse_csv
from preflight.smi_reports.short_outputs import LSPCI, list_tree, parse_lspci
from preflight.smi_reports.surroundings import ERRORS, close_xml
from preflight.smi_reports.system_reports import COLLECTED, INFORMATION, parse_information, parse_report
from preflight.smi_reports.unsupported_files import OF_ACCOUNTING, OTHER_TABLE
from preflight.smi_reports.wrapped_lines import MONITOR

Facts = dict[str, Any]

_HEAD = r"^\|[^\S\n]*NVIDIA-SMI \d[\dx.]* "
_TABLE_HEAD = re.compile(_HEAD, re.MULTILINE)
_Q_HEAD = re.compile(r"^=+NVSMI LOG=", re.MULTILINE)
_ASKED_GPU = re.compile(r"nvidia-smi\b(?=[^\n]* -q)[^\n]* (?:-i|--id)[ =]?(\d{1,2}(?:,\d{1,2})*)(?![\d,:.])")
WHICH_IS_UNKNOWN = "which is not known"
_ROW = r"^\|[^\S\n]*\d{1,4}[^\S\n]+\S[^|\n]*\|[^\S\n]*(?:[0-9A-F]{4,8}:)?[0-9A-F]{2}:[0-9A-F]{2}\.\d "
CSV_NAMES = (
    r"^(?![^\n]{0,400}\b(?:pid|retired_pages\.address)\b)(\w[\w.]*( \[[\w/%]+\])?, *)*"
    r"((gpu_)?name|(gpu_)?uuid|index|pci\.bus_id|gpu_bus_id|memory\.(?:total|used))( \[\w+\])?(,|[^\S\n]*$)"
)
_STAMP = (
    r"\[[^\[\]\n]{0,40}\d[.:]\d[^\[\]\n]{0,40}\]|<\d+>|\S{3,5} +\d+ [\d:]{8}"
    r"|(?:<\d+>1? ?)?\d{4}-\d\d-\d\d[T ]\S+"
)
_OF_KERNEL = (
    r"^(?![^\n]*NVRM: Xid \([^)\n]*\): \d+ [a-z])(?:"
    r"[> \t]{0,8}(?!\[[\d. ]+\] ?\[[A-Z]+\])(?:(?:(?:\S+ )?kernel: |\[\.{3}\] )?NVRM:|\[ *\d+\.\d{6}\]"
    r"|kern *:|\d+,\d+,\d+(?:,[^;\n]*)?;|\[\S+ \S+ +\d+ [\d:]{8} \d{4}\] |\[ *\d+\.\d+\][^\n]*nvidia"
    rf"|(?:{_STAMP})(?:[^\n]*NVRM:| \S+ kernel(?::|\[| -)))"
    r"|(?=[^\n]{0,80}NVRM: )(?![^\n]{0,80}?\b[a-z]+ [a-z]+ [^\n]{0,80}?NVRM: )"
    r"[^\n]{0,80}?(?:[\d:|\]>;)+][ \t]*|\w-|[:=][\"'])NVRM: )"
)
"""A line of dmesg, /dev/kmsg, journalctl or syslog: a date alone is in front of many a program's lines.

One that a mark is in front of is, too; one that an author quotes behind words is not.
"""
_QUOTED = re.compile(rf"^(?=[^\n]*NVRM: )(?!{_OF_KERNEL})[^\n]*$", re.MULTILINE | re.IGNORECASE)
_LEFT_OUT = re.compile(r",[^\n,]*\n[^\S\n]*(?:\.{3,6}|\u2026)[^\S\n]*$(?!\n[^\S\n]*\d+,)", re.MULTILINE)
"""Dots in place of the last rows of a CSV."""
_ELIDED = re.compile(
    r"^[^|+\n]*(?:\.{3}|\u2026|\b(?:truncated|omitted|snip(?:ped)?|elided|skipped)\b)[^|+\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""In place of lines of a table."""
_LONGEST_LINE = 8192  # all columns of --query-gpu take five thousand characters


def read_form(text: str) -> Facts | None:
    """Return the facts of a text of one command, None where it is none of `FORMS`. Raises ValueError."""
    if "<nvidia_smi_log" in text:
        return _xml(text)
    text = "\n".join(line[:_LONGEST_LINE] for line in text.split("\n"))
    for form in FORMS:
        facts = form.read(text) if re.search(form.looks, text, re.MULTILINE | re.IGNORECASE) else None
        if facts is not None:
            return facts
    return None


def _tree_facts(tree: Facts) -> Facts:
    """Return driver and gpus of a tree; raises ValueError where it holds no GPU and does not say "none"."""
    mark_cut_values(tree)
    gpus = parse_gpus(tree)
    attached = convert_value(find_text(tree, "attached_gpus"), parse_whole)
    driver = parse_driver(tree, "file")
    if gpus:
        return {"driver": driver, "gpus": gpus}
    if attached == 0:
        return {"driver": driver, "gpus": missing("nvidia-smi lists no GPU", "no-devices")}
    raise ValueError("it holds no GPU")


def _error(text: str) -> Facts | None:
    """Return the error that nvidia-smi printed; beside a GPU that is lost, what is known of the others."""
    listed = parse_bare_rows(text) if re.search(ROW, text, re.MULTILINE | re.IGNORECASE) else None
    return listed or parse_error(text)


def parse_kernel(text: str) -> Facts:
    """Return what a kernel log, or lines of one among others, say."""
    return {"kernel_log": {"source": "file", **parse_kernel_log(drop_quoted(text))}}


def drop_quoted(text: str) -> str:
    """Return a text without the lines of a kernel that an author quotes behind words."""
    return _QUOTED.sub("", text)


def _xml(text: str) -> Facts:
    """Return the facts of the XML; of one that is cut, what is whole in it: see `_counted_facts`."""
    texts = repeated_recordings.split_at(
        text, [match.start() for match in re.finditer("<nvidia_smi_log", text)]
    )
    closed = [close_xml(each) for each in texts]
    trees = [parse_xml(whole) for whole, _ in closed]
    place = repeated_recordings.find_latest(trees, texts)
    tree, inside = trees[place], closed[place][1]
    facts = _counted_facts(tree, text)
    if "processes" in inside and isinstance(facts["gpus"], list):
        shown = [gpu for gpu in facts["gpus"] if isinstance(gpu["name"], str)]
        if shown and isinstance(shown[-1]["processes"], list):
            shown[-1]["memory"] = missing("the file is cut in the list of processes", "not-asked")
    return facts


def _q(text: str) -> Facts:
    texts = repeated_recordings.split_at(text, [0, *[match.start() for match in _Q_HEAD.finditer(text)][1:]])
    trees = [parse_q(each) for each in texts]
    place = repeated_recordings.find_latest(trees, texts)
    asked, tree = _ASKED_GPU.search(text), trees[place]
    repeated_recordings.add_other_groups(trees[: place + 1], texts[: place + 1])
    return _counted_facts(tree, text, [*map(int, asked[1].split(","))] if asked else ())


def _counted_facts(tree: Facts, text: str, asked: Sequence[int] = ()) -> Facts:
    """Return the facts of a tree; GPUs that it counts and does not show are unknown: cut, or not `asked`."""
    tree["gpu"] = gpus = repeated_recordings.list_gpus(tree)
    table.place_lost(gpus, text, are_numbered=False)
    facts = _tree_facts(tree)
    attached = convert_value(find_text(tree, "attached_gpus"), parse_whole)
    if find_text(tree, "attached_gpus") is None and isinstance(facts["gpus"], list):
        facts["gpus"] = _placed(facts["gpus"], starts_within="cut" in tree, asked=asked)
    cut = bool(gpus) and (len(facts["gpus"]) != attached or "processes" not in gpus[-1])
    if cut and isinstance(attached, int) and attached <= table.MAX_GPUS:
        places = _places(facts["gpus"], attached, asked)
        which = ", not this one" if places else f"; {WHICH_IS_UNKNOWN}"
        reason = f"the host has {attached} GPUs, and the file holds {_counted(len(gpus))}{which}"
        places = places or list(range(len(gpus)))
        facts["gpus"] = place_gpus(facts["gpus"], places, max(attached, len(gpus)), reason)
    return facts


def _placed(gpus: list[Facts], *, starts_within: bool, asked: Sequence[int]) -> list[Facts]:
    """Return the GPUs of a text that lost its start, by device files or as `asked`. Raises ValueError."""
    places = _places(gpus, table.MAX_GPUS, asked, starts_within=starts_within)
    if places:
        return place_gpus(gpus, places, places[-1] + 1, "the file is cut at its start")
    if starts_within:
        raise ValueError("it is cut at its start, and the numbers of its GPUs are not known")
    return gpus


def place_gpus(gpus: list[Facts], places: list[int], count: int, reason: str) -> list[Facts]:
    """Return `count` GPUs, of which those at other places are missing for a reason."""
    held, absent = dict(zip(places, gpus, strict=True)), dict.fromkeys(gpus[0], missing(reason, "not-asked"))
    return [{**held.get(index, absent), "index": index} for index in range(count)]


def _places(gpus: list[Facts], count: int, asked: Sequence[int], *, starts_within: bool = False) -> list[int]:
    """Return the numbers of the GPUs of a part: of their device files, or those asked for; [] for none.

    What a cut left of the first and of the last one is beside the next and behind the one before.
    """
    minors = [gpu["minor"] if isinstance(gpu["minor"], int) else -1 for gpu in gpus]
    minors = [*asked] if len(asked) == len(gpus) and set(minors) == {-1} else minors
    if starts_within and minors[0] < 0:
        minors[0] = minors[1] - 1
    if len(minors) > 1 and minors[-1] < 0 <= minors[-2]:
        minors[-1] = minors[-2] + 1
    return minors if minors == sorted(set(minors)) and minors[0] >= 0 and minors[-1] < count else []


def _table(text: str) -> Facts:
    """Return the facts of a table, of several of one host the last; raises ValueError for several hosts."""
    text = re.sub(r"^ +(?=[|+])", "", text, flags=re.MULTILINE)  # of one table below another's prefix
    starts = _table_starts(text)
    if not starts or re.search(_ROW, text[: starts[0]], re.MULTILINE | re.IGNORECASE):
        starts = [0, *starts]  # of one that is cut at its start
    texts = repeated_recordings.split_at(text, starts)
    trees = [table.parse_table(each) for each in texts]
    are_closed = [
        table.is_closed("".join(table.PROCESSES_START.split(each, maxsplit=1)[1:])) for each in texts
    ]
    place = repeated_recordings.find_latest(trees, texts, are_closed)
    repeated_recordings.keep_processes(trees[: place + 1], texts[: place + 1])
    if not trees[place]["gpu"] and _TABLE_HEAD.search(text):  # a line of a table, as grep finds it
        others = read_form(_TABLE_HEAD.sub("", text))
        if others is not None:
            return {**others, "driver": parse_driver(trees[place], "file")}
    tree, text = trees[place], texts[place]
    facts = _tree_facts(tree)
    if all({**row, "processes": ""} == {"product_name": CUT, "processes": ""} for row in tree["gpu"]):
        count = _counted(len(facts["gpus"]))
        alone = missing(f"the file lists processes alone: the host has at least {count}", "not-asked")
        return {**facts, "gpus": [{**gpu, "name": alone, "memory": alone} for gpu in facts["gpus"]]}
    unread: tuple[str, ...] = ("memory", "processes")
    cut = "the file is cut in its list of processes"
    _, *listed = table.PROCESSES_START.split(text, maxsplit=1)
    if not listed:
        count = _counted(len(facts["gpus"]))
        cut = f"the file is cut before its list of processes: the host has at least {count}"
        unread = ("processes",)
    elif table.is_closed(listed[0]):
        unread, cut = (), "a row of the list of processes is cut"
    for gpu, row in zip(facts["gpus"], tree["gpu"], strict=False):
        gpu.update({name: missing(cut, "not-asked") for name in unread if gpu[name] == NOT_HELD})
        gpu.update({table.PARTIAL: cut} if row.get(table.PARTIAL) else {})
        if row.get("processes") == table.UNLISTED:
            gpu["processes"] = missing(f"nvidia-smi says {table.UNLISTED!r} of them", "not-asked")
        elif isinstance(gpu["name"], str) and "fb_memory_usage" not in row and gpu["memory"] == NOT_HELD:
            gpu["memory"] = convert_value(CUT, parse_whole)
    *_, row = [None, *re.finditer(_ROW, text, re.MULTILINE | re.IGNORECASE)]
    if listed and row is not None and _ELIDED.search(text, row.end(), len(text) - len(listed[0])):
        least = missing(
            f"lines are left out: the host has at least {_counted(len(facts['gpus']))}", "not-asked"
        )
        for gpu in facts["gpus"]:
            gpu["processes"] = gpu["processes"] or least
    return facts


def _nvitop(text: str) -> Facts:
    tree, is_idle = parse_nvitop(text)
    if not tree["gpu"]:
        raise ValueError("the panel of nvitop in it lists no GPU")
    facts = _tree_facts(tree)
    unlisted: Any = (
        [] if is_idle else missing("nvitop shows only as many processes as its screen holds", "not-asked")
    )
    for gpu in facts["gpus"]:
        if gpu["processes"] == NOT_HELD:
            gpu["processes"] = unlisted
    return facts


def _headless_table(text: str) -> Facts | None:
    """Return the facts of a table that is cut at its start, None for one of a program with such lines."""
    return None if "NVITOP" in text or re.search(OTHER_TABLE, text, re.MULTILINE) else _table(text)


def _process_rows(text: str) -> Facts:
    """Return the facts of rows of processes that something picked out of a table: others may not be shown."""
    facts = _table(f"| Processes:\n{text}")
    others = missing("the file holds some rows of the list of processes alone", "not-asked")
    for gpu in facts["gpus"]:
        gpu["processes"] = gpu["processes"] or others
    return facts


def _table_starts(text: str) -> list[int]:
    """Return where each table starts, with what nvidia-smi says of lost GPUs above it."""
    starts: list[int] = []
    for match in _TABLE_HEAD.finditer(text):
        start = match.start()
        above = text[starts[-1] if starts else 0 : start].split("\n")[:-1]
        while above and (not above[-1].strip() or above[-1].startswith("+")):
            start -= len(above.pop()) + 1
        while above and not above[-1].startswith(("|", "+")):
            start -= len(above.pop()) + 1
        starts.append(start)
    return starts


def _counted(count: int) -> str:
    """Return "1 GPU" or "8 GPUs"."""
    return f"{count} GPU{'' if count == 1 else 's'}"


def _csv(text: str) -> Facts | None:
    tree = parse_csv(text)
    facts = _tree_facts(tree) if tree else None
    why = "rows may list GPUs twice" if "at_least" in tree else ""
    why = "dots stand for rows that are left out" if _LEFT_OUT.search(text) else why
    for gpu in facts["gpus"] if facts and why else ():
        least = f"the host has at least {_counted(tree.get('at_least', len(tree['gpu'])))}"
        gpu["processes"] = missing(f"{why}: {least}", "not-asked")
    return facts


def list_facts(text: str) -> Facts:
    """Return what -L or nvlink -s says. Raises ValueError."""
    gpus = list_tree(text)
    facts = _tree_facts({"gpu": [tree for tree, _ in gpus]})
    for gpu, (_, links) in zip(facts["gpus"], gpus, strict=True):
        gpu["nvlinks"] = links or NOT_HELD
    return facts


def build_monitor_facts(text: str) -> Facts:
    """Return what dmon or pmon says. Raises ValueError."""
    tree, lists_processes = parse_monitor(text)
    facts = _tree_facts(tree)
    program = "pmon" if lists_processes else "dmon"
    reason = f"{program} does not say it, and watches few GPUs: the host has at least"
    unsaid = missing(f"{reason} {_counted(len(facts['gpus']))}", "not-asked")
    for gpu in facts["gpus"]:
        gpu.update({name: unsaid for name in ("memory", "processes") if gpu[name] == NOT_HELD})
    return facts


def parse_bare_rows(text: str) -> Facts | None:
    """Return what rows of a CSV without names say themselves, None where there are none."""
    read = None if re.search(OF_ACCOUNTING, text, re.MULTILINE) else parse_headerless(text)
    if read is None:
        return None
    facts = _tree_facts(read[0])
    asked = ("memory", "processes", "compute_mode", "mig_enabled", "ecc")
    for gpu in facts["gpus"]:
        gpu.update({name: missing(read[1], "not-asked") for name in asked if gpu[name] == NOT_HELD})
    return facts


def parse_gpustat(text: str) -> Facts:
    """Return what gpustat's rows say. Raises ValueError."""
    tree, unlisted = parse_rows(text)
    facts = _tree_facts(tree)
    for index, reason in unlisted.items():
        facts["gpus"][index]["processes"] = missing(reason, "not-asked")
    return facts


class Form(NamedTuple):
    """What a recording looks like and who reads it."""

    looks: str
    read: Callable[[str], Facts | None]


FORMS = (
    Form(r"=NVSMI LOG=|^GPU (?:[0-9A-F]{4}){1,2}:[0-9A-F]{2}:[0-9A-F]{2}\.\d[^\S\n]*$", _q),
    Form(NVITOP, _nvitop),
    Form(_HEAD, _table),
    Form(_ROW, _headless_table),
    Form(r"^[^\S\n]*GPU \d+: .*\(UUID: ", list_facts),
    Form(r"^\|[^\S\n]*(?:Compute p|P)rocesses:(?=[\s\S]*MiB \|)", _headless_table),
    Form(table.PROCESS_ROW, _process_rows),
    Form(r"^[^\n]{0,80}nvidia-smi .{0,200}--query-gpu=\S+", _csv),
    Form(CSV_NAMES, _csv),
    Form(ERROR_LINE, _error),
    Form(rf"^.{{0,400}}?(?:{NO_PROGRAM}|{OF_CONTAINER})", _error),
    Form(COLLECTED, lambda text: _tree_facts(parse_report(text))),
    Form(INFORMATION, lambda text: _tree_facts(parse_information(text))),
    Form(TOPOLOGY, lambda text: _tree_facts(parse_topology(text))),
    Form(MONITOR, build_monitor_facts),
    Form(ASKED, build_facts),
    Form(GPUSTAT_ROW, parse_gpustat),
    Form(GPUSTAT_JSON, lambda text: _tree_facts(parse_document(text))),
    Form(ROW, parse_bare_rows),
    Form(BARE_ROW, build_facts),
    Form(_OF_KERNEL, parse_kernel),
    Form(r"^DRIVER version *: *\d", lambda text: {"driver": parse_driver(parse_q(text), "file")}),
    Form(LSPCI, lambda text: {"pci_gpus": parse_lspci(text)}),
    Form("^WARNING: infoROM", parse_kernel),
    Form(ERRORS, note_facts),
)
"""Forms in the order they are tried; XML comes before.

`[^\\S\\n]` is white space within a line: `^\\s*` would run through all empty lines that follow, from each.
"""
