"""Consistency of the ranks on this host (G7), and a GPU of its own for each (G6)."""

import contextlib
import json
import os
import sys
from typing import Any, Iterator

from ..context import GuardContext
from ..reporter import Violation
from ..tensors import count_values, find_first_cuda
from ..training_state import Step, read_mixed_precision


def mismatched_peers(step: Step) -> Iterator[Violation]:
    """Publish this rank's training facts, and compare them with those of its host's other ranks.

    Only facts published earlier are compared: the check waits for no rank. The client compares all ranks of
    all hosts, but may not be connected when they start to step.
    """
    place = step.training.place
    facts = _facts(step)
    step.training.tools.report("guard_facts", **facts)
    mine = sorted(facts["dtypes"]), facts["mixed_precision"], facts["scaler"]
    for other in _published_facts(place):
        where = "rank %s and rank %s of this host" % (other["rank"], place.rank)
        if facts["gpu"] and facts["gpu"] == other.get("gpu"):
            fix = "use accelerator.device in the script, never a fixed cuda:N or device_map='auto'"
            yield Violation("G6", "%s are on one GPU, %s" % (where, facts["gpu"]), fix, True)
        theirs = sorted(other.get("dtypes") or {}), other.get("mixed_precision"), other.get("scaler")
        if theirs != mine:
            text = "%s are unlike (trainable dtypes, mixed precision, scaler): %s; %s"
            fix = "decide precision and dtypes once for all ranks, not from each rank's own GPU"
            yield Violation("G7", text % (where, theirs, mine), fix, True)


def _facts(step: Step) -> dict[str, Any]:
    training = step.training
    torch = training.torch
    trainable = step.list_trainable()
    device = find_first_cuda(trainable)
    facts: dict[str, Any] = {
        "dtypes": count_values(p.dtype for p in trainable),
        "devices": count_values(p.device for p in trainable),
        "mixed_precision": read_mixed_precision(),
        "scaler": training.has_scaler,
        "versions": {"torch": str(torch.__version__)},
        "gpu": training.tools.gpu_uuid(device) if device is not None else "",
    }
    for name in ("accelerate", "transformers"):
        if name in sys.modules:
            facts["versions"][name] = str(getattr(sys.modules[name], "__version__", ""))
    if device is not None:
        facts["capability"] = list(torch.cuda.get_device_capability(device))
        with contextlib.suppress(Exception):
            facts["versions"]["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return facts


def _published_facts(place: GuardContext) -> Iterator[dict[str, Any]]:
    """Yield the facts that this host's other ranks have published at their first step so far."""
    try:
        with open(os.path.join(place.run_dir, "events.jsonl"), "rb") as file:
            lines = [line for line in file if b'"guard_facts"' in line]
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if event.get("event") == "guard_facts" and event.get("rank") != place.rank:
                yield event
