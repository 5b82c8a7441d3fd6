"""Compute capabilities, which `nvidia-smi -q` does not print: the GPU's name gives them."""

import re
from typing import Any

from ..fact import Json, missing
from .values import find_text

_ARCHITECTURES = {"hopper": (9, 0), "ada lovelace": (8, 9), "turing": (7, 5)}
_CAPABILITIES = (
    # nvidia-smi -q does not print the compute capability; the name gives it. First match wins.
    (r"\bGB10\b", (12, 1)),
    (r"\bThor\b", (11, 0)),
    (r"\b(B300|GB300)\b", (10, 3)),
    (r"\b(B100|B200|GB200)\b", (10, 0)),
    (r"\b(RTX PRO \d+ Blac.*|RTX PRO \d+.*Blackwell|RTX 50[5-9]0)\b", (12, 0)),
    (r"\b(H100|H200|H800|H20|GH200)\b", (9, 0)),
    (r"\b(L4|L40|L40G|L40S|L20|L2)\b|\bRTX 40[5-9]0\b|\bRTX \d{3,4} .*Ada\b", (8, 9)),
    (r"\bOrin\b", (8, 7)),
    (r"\b(A100X?|A800|A30X?|CMP 170HX)\b", (8, 0)),
    (r"\b(A2|A10|A10G|A10M|A16|A40|RTX 30[5-9]0|RTX A\d{3,4}|RTX 2050|MX570|CMP [79]0HX)\b", (8, 6)),
    (r"\b(T4G?|TITAN RTX|RTX 20[6-8]0|GTX 16[356]0|Quadro RTX \d000|T[456]00|T550|T1[02]00)\b", (7, 5)),
    (r"\b(Quadro T2000|MX[45]50|CMP [345]0HX)\b", (7, 5)),
    (r"\bXavier\b", (7, 2)),
    (r"\b(V100S?|TITAN V|Quadro GV100|CMP 100)", (7, 0)),
    (r"\b(P100|Quadro GP100)", (6, 0)),
    (r"\b(MX1[13]0|M10)\b", (5, 0)),
    (r"\b(P4|P6|P40|(?<!GTX )TITAN Xp?|GTX 10[1-8]0|GT 10[1-3]0|P\d{3,4}|MX150|MX[23][35]0)\b", (6, 1)),
    (r"\b(M4|M6|M40|M60|GTX 9[5-8]0|GTX TITAN X|Quadro M(?:[2456]000|2200))\b", (5, 2)),
    (r"\b(GTX 75[05]|GTX 745|Quadro K(?:620|1200|2200)|9[34]0MX?)\b", (5, 0)),
    (r"\b(K80)\b", (3, 7)),
    (r"\b(K20X?|K40)[cmst]?\b", (3, 5)),
)
_CUT = "..."


def find_capability(gpu: Json, name: Any) -> Any:
    """Return the compute capability out of the tree where it holds it, else by name, else by architecture."""
    printed = find_text(gpu, "compute_capability", "compute_cap", "cuda_compute_capability")
    match = re.fullmatch(r"(\d{1,2})\.(\d)", printed or "")
    if match:
        return [int(match.group(1)), int(match.group(2))]
    by_name = _by_name(name) if isinstance(name, str) else None
    if by_name is not None:
        return list(by_name)
    known = _ARCHITECTURES.get((find_text(gpu, "product_architecture") or "").lower())
    return (
        list(known)
        if known
        else missing("nvidia-smi -q does not print it and the name does not reveal it", "not-asked")
    )


def _by_name(name: str) -> "tuple[int, int] | None":
    """Return the compute capability of a GPU's name; of one that a table cuts by numbers before the cut."""
    is_cut = name.endswith(_CUT)
    shown = name[: -len(_CUT)] if is_cut else name
    for pattern, known in _CAPABILITIES:
        match = re.search(pattern, shown, re.IGNORECASE)
        if match and not (is_cut and match.end() == len(shown) and shown[-1:].isdigit()):
            return known
    return None
