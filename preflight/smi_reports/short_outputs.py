"""The short outputs: -L and nvlink -s, and lspci's view of the same hardware. Pure."""

import re
from itertools import pairwise
from typing import Any

from preflight.probes.nvidia_smi.values import NOT_HELD
from preflight.smi_reports.repeated_recordings import latest
from preflight.smi_reports.table import LOST, MAX_GPUS, absent_gpu, unreachable

Tree = dict[str, Any]

_GPU = re.compile(r"(?:^|(?<=\) ))GPU (\d{1,4}): (.{0,120}?) \(UUID: ([^()\n]*\)?)", re.MULTILINE)
_UUID = re.compile(r"((?:GPU|MIG)-[0-9A-Fa-f-]+)\)")
"""Whole, and not one that was masked (`GPU-xxxx`)."""
_MIG = re.compile(r"^[^\S\n]+MIG (?:[\w.+]+ +)?Device +\d+:", re.MULTILINE)
_LINK = re.compile(r"^[^\S\n]*Link (\d{1,4}):(.*)$", re.MULTILINE)
_STATE = re.compile(r"\s*(?:\d+(?:\.\d+)? GB/s|<inactive>)\s*", re.IGNORECASE)


def list_tree(text: str) -> list[tuple[Tree, list[dict[str, Any]]]]:
    """Return (tree, NVLinks) of each GPU of `-L` or `nvlink -s`.

    A number without a line is a GPU of which nothing is known: a lost one where the text says that one is.
    Raises ValueError where the numbers are those of no host.
    """
    heads = list(_GPU.finditer(text))
    starts = [at for at, head in enumerate(heads) if at == 0 or int(head[1]) <= int(heads[at - 1][1])]
    if len(starts) > 1:
        places = [heads[at].start() for at in starts]
        texts = [text[start:end] for start, end in pairwise([*places, len(text)])]
        lists = [list_tree(each) for each in texts]
        return lists[latest([{"gpu": [tree for tree, _ in each]} for each in lists], texts)]
    found: list[tuple[Tree, list[dict[str, Any]]]] = []
    absent = absent_gpu(text)
    for number, head in enumerate(heads):
        index = int(head.group(1))
        if index < len(found) or index >= MAX_GPUS:
            raise ValueError(f"GPU {len(found)} is not in it")
        found += [(absent, [])] * (index - len(found))
        end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        links, *others = _links(text[head.end() : end])
        uuid = _UUID.fullmatch(head[3])
        tree: Tree = {"product_name": head[2], **({"uuid": uuid[1]} if uuid else {})}
        if _MIG.search(text, head.end(), end):
            tree["mig_mode"] = {"current": "Enabled"}
        found.append((tree, links))
        found += [
            ({}, each) for each in others[: MAX_GPUS - len(found)]
        ]  # of GPUs whose first lines are lost
    unseen = unreachable(text) - sum(LOST in str(tree) for tree, _ in found)
    return found + [(absent, [])] * (min(unseen, MAX_GPUS) if found else 0)


def _links(text: str) -> list[list[dict[str, Any]]]:
    """Return the NVLinks of each GPU: where the numbers start again, the first line of a GPU is lost.

    Those of a GPU of which one cannot be read, or is out of order, are left out.
    """
    gpus: list[list[tuple[int, str]]] = [[]]
    for number, state in _LINK.findall(text):
        links, link = gpus[-1], (int(number), state)
        if len(links) > 1 and link[0] == links[0][0]:
            gpus.append([link])
        elif links[-1:] != [link]:  # and no line that is doubled
            links.append(link)
    return [_links_of_gpu(links) for links in gpus]


def _links_of_gpu(links: list[tuple[int, str]]) -> list[dict[str, Any]]:
    numbers = [number for number, _ in links]
    if numbers != sorted(set(numbers)) or not all(_STATE.fullmatch(state) for _, state in links):
        return []
    return [{"link": number, "active": "<" not in state, "errors": NOT_HELD} for number, state in links]


LSPCI = r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d .*NVIDIA"
_LSPCI = re.compile(
    r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d) "
    r"(?:VGA compatible controller|3D controller|Display controller)"
    r".*?: NVIDIA.*?(?:\[10de:([0-9a-f]{4})\].*|Device ([0-9a-f]{4})\b.*)?$",
    re.MULTILINE,
)


def lspci_gpus(text: str) -> list[dict[str, Any]]:
    """Return facts.PciGpu for each NVIDIA display controller."""
    found = []
    for bus, with_vendor, alone in _LSPCI.findall(text):
        bus_id = bus if bus.count(":") == 2 else "0000:" + bus
        found.append({"bus_id": bus_id, "device_id": with_vendor or alone, "driver": NOT_HELD})
    return found
