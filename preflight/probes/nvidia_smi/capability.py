"""Compute capabilities, which `nvidia-smi -q` does not print: the GPU's name gives them."""

import re
from typing import Any

from ..fact import Json, missing
from .values import find

_ARCHITECTURES = {"hopper": (9, 0), "ada lovelace": (8, 9), "turing": (7, 5)}
_CAPABILITIES = (
    # nvidia-smi -q does not print the compute capability; the name gives it. First match wins.
    (r"\bGB10\b", (12, 1)),
    (r"\b(B300|GB300)\b", (10, 3)),
    (r"\b(B100|B200|GB200)\b", (10, 0)),
    (r"\b(RTX PRO \d+.*Blackwell|RTX 50[5-9]0)\b", (12, 0)),
    (r"\b(H100|H200|H800|H20|GH200)\b", (9, 0)),
    (r"\b(L4|L40|L40S|L20|L2)\b|\bRTX 40[5-9]0\b|\bRTX \d000 .*Ada\b|\bRTX \d{4} Ada\b", (8, 9)),
    (r"\b(A100|A800|A30)\b", (8, 0)),
    (r"\b(A2|A10|A10G|A10M|A16|A40)\b|\bRTX 30[5-9]0\b|\bRTX A\d{3,4}\b|\bRTX 2050\b", (8, 6)),
    (
        r"\b(T4G?|TITAN RTX|RTX 20[6-8]0|GTX 16[56]0|Quadro RTX \d000|T[456]00|T550|T1[02]00|MX[45]50)\b",
        (7, 5),
    ),
    (r"\b(V100S?|TITAN V|Quadro GV100|CMP 100)", (7, 0)),
    (r"\b(P100|Quadro GP100)", (6, 0)),
    (
        r"\b(P4|P6|P40|(?<!GTX )TITAN Xp?|GTX 10[1-8]0|GT 10[1-3]0|Quadro P\d{3,4}|P\d{3,4}|MX[1-3][1-5]0)\b",
        (6, 1),
    ),
    (r"\b(M4|M6|M10|M40|M60|GTX 9[5-8]0|GTX TITAN X|Quadro M\d{3,4})\b", (5, 2)),
    (r"\b(GTX 75[05]|GTX 745|Quadro K[26]\d0|9[34]0MX?)\b", (5, 0)),
    (r"\b(K80)\b", (3, 7)),
    (r"\b(K20X?|K40)[cmst]?\b", (3, 5)),
)


def capability(gpu: Json, name: Any) -> Any:
    """Return the compute capability out of the tree where it holds it, else by name, else by architecture."""
    printed = find(gpu, "compute_capability", "compute_cap", "cuda_compute_capability")
    match = re.fullmatch(r"(\d{1,2})\.(\d)", printed or "")
    if match:
        return [int(match.group(1)), int(match.group(2))]
    if isinstance(name, str) and not name.endswith("..."):
        for pattern, capability in _CAPABILITIES:
            if re.search(pattern, name, re.IGNORECASE):
                return list(capability)
    known = _ARCHITECTURES.get((find(gpu, "product_architecture") or "").lower())
    return (
        list(known)
        if known
        else missing("nvidia-smi -q does not print it and the name does not reveal it", "not-asked")
    )
