"""The short outputs: -L and nvlink -s, and lspci's view of the same hardware. Pure."""

from typing import Any

from preflight import regex as re
from preflight.probes.nvidia_smi.values import NOT_HELD
from preflight.smi_reports.headerless_csv import UUID
from preflight.smi_reports.repeated_recordings import find_latest, split_at
from preflight.smi_reports.table import LOST, MAX_GPUS, find_absent_gpu, find_unreachable

Tree = dict[str, Any]

_GPU = re.compile(
    r"(?:^[^\S\n]*|(?<=\) )|(?<=\)[,;] ))GPU (\d{1,4}): (.{0,120}?) \(UUID: ?([^()\n]*\)?)", re.MULTILINE
)
_UUID = re.compile(rf"((?:GPU|MIG)-[0-9A-Fa-f-]+(?=\))|(?i:{UUID}))\)?")  # not a masked one (`GPU-xxxx`)
_MIG = re.compile(r"^[^\S\n]*MIG (?:[\w.+]+ +)?Device +\d+:", re.MULTILINE)
_LINK = re.compile(r"^[^\S\n]*Link (\d{1,4}):(.*)$", re.MULTILINE)
_STATE = re.compile(r"\s*(?:\d+(?:\.\d+)? GB/s|<inactive>)\s*", re.IGNORECASE)
_ALL_DOWN = re.compile(r"^[^\n()]*\ball (?:NVL|l)inks are inactive.*$", re.MULTILINE | re.IGNORECASE)
"""What `nvlink -s` says in place of the links of a GPU none of which is up."""

_COUNTER = re.compile(r"[\w ]{1,60}:\s*(?:(\d{1,18})|\S+)\s*")  # of `nvlink -e`, for links that are up


def list_tree(text: str) -> list[tuple[Tree, list[dict[str, Any]]]]:
    """Return (tree, NVLinks) of each GPU of `-L` or `nvlink -s`.

    A number without a line is a GPU of which nothing is known: a lost one where the text says that one is.
    Raises ValueError where the numbers are those of no host.
    """
    heads = list(_GPU.finditer(text))
    numbers = [int(head[1]) for head in heads]
    starts = [at for at, number in enumerate(numbers) if at == 0 or number <= numbers[at - 1]]
    if len(set(numbers)) < len(numbers):
        texts = split_at(text, [heads[at].start() for at in starts])
        lists = [list_tree(each) for each in texts]
        return lists[find_latest([{"gpu": [tree for tree, _ in each]} for each in lists], texts)]
    found: list[tuple[Tree, list[dict[str, Any]]]] = []
    absent = find_absent_gpu(text)
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for index, head, end in sorted(zip(numbers, heads, ends, strict=True), key=lambda block: block[0]):
        if index < len(found) or index >= MAX_GPUS:
            raise ValueError(f"GPU {len(found)} is not in it")
        found += [(absent, [])] * (index - len(found))
        links, *others = _links(_ALL_DOWN.sub("Link 0: <inactive>", text[head.end() : end]))
        uuid = _UUID.fullmatch(head[3])
        tree: Tree = {"product_name": head[2], **({"uuid": uuid[1]} if uuid else {})}
        if _MIG.search(text, head.end(), end):
            tree["mig_mode"] = {"current": "Enabled"}
        found.append((tree, links))
        found += [({}, each) for each in others[: MAX_GPUS - len(found)]]  # their first lines are lost
    most = max((len(links) for _, links in found), default=0)
    found = [(tree, [] if _lacks_links(links, most) else links) for tree, links in found]
    unseen = len(find_unreachable(text)) - sum(LOST in str(tree) for tree, _ in found)
    return found + [(absent, [])] * (min(unseen, MAX_GPUS) if found else 0)


def _links(text: str) -> list[list[dict[str, Any]]]:
    """Return the NVLinks of each GPU: where the numbers start again, the first line of a GPU is lost.

    Those of a GPU of which one cannot be read, or is out of order, are left out: a number that comes again
    and starts no list without gaps is one of those.
    """
    gpus: list[list[tuple[int, list[str]]]] = [[]]
    for number, state in _LINK.findall(text):
        links = gpus[-1]
        if len(links) > 1 and int(number) == links[0][0]:
            gpus.append([(int(number), [state])])
        elif not links or links[-1][0] != int(number):
            links.append((int(number), [state]))
        elif state not in links[-1][1]:  # and no line that is doubled
            links[-1][1].append(state)
    is_row = all([number for number, _ in links] == [*range(len(links))] for links in gpus if len(gpus) > 1)
    return [_links_of_gpu(links) for links in gpus] if is_row else [[]]


def _links_of_gpu(links: list[tuple[int, list[str]]]) -> list[dict[str, Any]]:
    found, is_read = list[dict[str, Any]](), [number for number, _ in links] == sorted({n for n, _ in links})
    for number, states in links:
        counters = [match for match in map(_COUNTER.fullmatch, states) if match]
        is_read &= len(counters) == len(states) or (
            len(states) == 1 and _STATE.fullmatch(states[0]) is not None
        )
        errors = sum(int(match[1] or 0) for match in counters) if counters else NOT_HELD
        found.append({"link": number, "active": "<" not in states[0], "errors": errors})
    return found if is_read else []


def _lacks_links(links: list[dict[str, Any]], count: int) -> bool:
    """Whether GPUs have more links than those listed, which say nothing bad: one that is lost may."""
    is_well = all(link["active"] and link["errors"] in (0, NOT_HELD) for link in links)
    return is_well and len(links) < max([count, *(link["link"] + 1 for link in links)])


LSPCI = r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d .*NVIDIA"
_LSPCI = re.compile(
    r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d) "
    r"(?:VGA compatible controller|3D controller|Display controller)"
    r".*?: NVIDIA.*?(?:\[10de:([0-9a-f]{4})\].*|Device ([0-9a-f]{4})\b.*)?$",
    re.MULTILINE,
)


def parse_lspci(text: str) -> list[dict[str, Any]]:
    """Return facts.PciGpu for each NVIDIA display controller; a text may list it again and again."""
    found: dict[str, str] = {}
    for bus, with_vendor, alone in _LSPCI.findall(text):
        bus_id = bus if bus.count(":") == 2 else "0000:" + bus
        found[bus_id] = with_vendor or alone or found.get(bus_id, "")
    return [{"bus_id": bus, "device_id": device, "driver": NOT_HELD} for bus, device in found.items()]
