"""Faults of what ranks do together, planted in scripts that have none: R401, R402, R404 to R408, P129."""

import ast
import re
from collections.abc import Iterator

from bench.judgement_plants import PlantedFault, Planter, calls, name_of, with_line

_OTHER_WAYS = re.compile(
    r"accelerat|lightning|deepspeed|shard|webdataset|IterableDataset|get_worker_info|hvd|horovod|ray\b",
    re.IGNORECASE,
)
"""What shares data, gradients or files among ranks in a way of its own."""
_GUARD = re.compile(
    r"(\s*)if (?:(?:args\.|self\.)?(?:global_)?rank|(?:torch\.)?dist(?:ributed)?\.get_rank\(\)) == 0:\s*$"
)
_WRAP = r"(?:\w+\.)*(?:DDP|DistributedDataParallel)"
_EXCHANGES = re.compile(r"\.module\b|all_reduce|fsdp|no_sync|average_grad", re.IGNORECASE)
_OTHER_RANKS = re.compile(r"rank\w*(?:\(\))? *(?:!=|>) *0|else:\s*(?:torch\.)?dist\.")


def _plain_sampler(text: str) -> tuple[ast.Call, str] | None:
    """Return the one loader with a sampler, where that is a DistributedSampler, and the sampler's name."""
    if _OTHER_WAYS.search(text):
        return None
    made = re.findall(r"^ *(\w+) = (?:\w+\.)*DistributedSampler\(", text, re.MULTILINE)
    loaders = [call for call in calls(text) if name_of(call) == "DataLoader"]
    given = [(call, word.value) for call in loaders for word in call.keywords if word.arg == "sampler"]
    if len(made) != 1 or len(given) != 1 or len(re.findall(rf"\b{made[0]} = ", text)) != 1:
        return None
    call, value = given[0]
    plain = isinstance(value, ast.Name) and value.id == made[0]
    words = {word.arg for word in call.keywords}
    return (call, made[0]) if plain and not words & {"shuffle", "batch_sampler", None} else None


def _on_loader(text: str, lines: list[str], change: str) -> tuple[str, int, int] | None:
    """Return the text with the sampler of the one loader changed, its line and that of the change."""
    found = _plain_sampler(text)
    if found is None:
        return None
    call, name = found
    for index in range(call.lineno - 1, call.end_lineno or call.lineno):
        changed, count = re.subn(rf"\bsampler ?= ?{name}\b", change.format(name), lines[index])
        if count == 1:
            return with_line(lines, index, changed), call.lineno, index + 1
    return None


def _all_data(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Shuffle where the sampler was; set_epoch() of the sampler stays, and changes nothing."""
    changed = _on_loader(text, lines, "shuffle=True")
    if changed and not re.search(r"\bval|\btest|\beval", lines[changed[1] - 1]):
        yield PlantedFault("no sampler", *changed[:2], frozenset({"R401"}))


def _shuffled_twice(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Shuffle beside the sampler."""
    changed = _on_loader(text, lines, "sampler={}, shuffle=True")
    if changed:
        yield PlantedFault("shuffle beside a sampler", changed[0], changed[2], frozenset({"R402"}))


def _alone_in_a_barrier(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Wait for the others in a branch of rank 0."""
    group = re.search(r"^import torch\.distributed as dist\b", text, re.MULTILINE)
    if group is None or "init_process_group" not in text or _OTHER_RANKS.search(text):
        return
    for index, line in enumerate(lines[:-1]):
        guard = _GUARD.match(line)
        if guard:
            indent = re.match(r"\s*", lines[index + 1])
            wait = f"{indent[0] if indent else ''}dist.barrier()"
            yield PlantedFault(
                "barrier of rank 0",
                with_line(lines, index, f"{line}\n{wait}"),
                index + 2,
                frozenset({"R404"}),
            )
            return


def _saved_by_all(_text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Open the branch of rank 0 in which weights are saved to all ranks."""
    for index, line in enumerate(lines[:-1]):
        guard = _GUARD.match(line)
        if guard and re.fullmatch(r"\s*torch\.save\((?:(?!rank).)*\)\s*", lines[index + 1]):
            changed = with_line(lines, index, f"{guard[1]}if True:")
            yield PlantedFault("saved by every rank", changed, index + 2, frozenset({"R405"}))
            return


def _never_wrapped(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Leave the model without DistributedDataParallel."""
    if _OTHER_WAYS.search(text) or _EXCHANGES.search(text):
        return
    wraps = [i for i, line in enumerate(lines) if re.search(r"(?:DDP|DistributedDataParallel)\(", line)]
    steps = [
        i for i, line in enumerate(lines) if re.match(r"\s*(?:scaler\.step\(\w+|\w*opt\w*\.step\()", line)
    ]
    if len(wraps) != 1 or len(steps) != 1:
        return
    found = re.fullmatch(rf"(\s+\w+ = ){_WRAP}\((\w+)(?:,[^()]*(?:\([^()]*\))?[^()]*)?\)\s*", lines[wraps[0]])
    if found:
        changed = with_line(lines, wraps[0], f"{found[1]}{found[2]}")
        yield PlantedFault("no DDP", changed, steps[0] + 1, frozenset({"R406"}))


def _stale_optimizer(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Make the optimizer before FullyShardedDataParallel shards the model."""
    if re.search(r"use_orig_params|param_groups", text):
        return
    wraps = [
        i for i, line in enumerate(lines) if re.match(r"\s*model = (?:FSDP|FullyShardedDataParallel)\(", line)
    ]
    made = [
        i
        for i, line in enumerate(lines)
        if re.match(r"\s*optimizer = [\w.]+\(model\.parameters\(\).*\)\s*$", line)
    ]
    if len(wraps) == len(made) == 1 and wraps[0] < made[0]:
        indents = {len(lines[i]) - len(lines[i].lstrip()) for i in (wraps[0], made[0])}
        if len(indents) == 1:
            kept = [*lines[: made[0]], *lines[made[0] + 1 :]]
            changed = "\n".join([*kept[: wraps[0]], lines[made[0]], *kept[wraps[0] :]])
            yield PlantedFault("optimizer before FSDP", changed, wraps[0] + 1, frozenset({"R407"}))


def _reentrant(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Checkpoint in the reentrant form under DistributedDataParallel(find_unused_parameters=True)."""
    spots = [
        i for i, line in enumerate(lines) if re.search(r"\bcheckpoint\([^\n]*use_reentrant ?= ?False", line)
    ]
    finds = re.search(rf"{_WRAP}\([^)]*find_unused_parameters ?= ?True", text)
    if len(spots) == 1 and finds and "static_graph" not in text:
        line = re.sub(r"use_reentrant ?= ?False", "use_reentrant=True", lines[spots[0]])
        yield PlantedFault(
            "reentrant checkpoint", with_line(lines, spots[0], line), spots[0] + 1, frozenset({"R408"})
        )


def _unscaled_step(text: str, lines: list[str]) -> Iterator[PlantedFault]:
    """Step the optimizer around the scaler, where nothing may switch it off."""
    if re.search(r"GradScaler\([^)]*enabled", text) or text.count("GradScaler(") != 1:
        return
    steps = [i for i, line in enumerate(lines) if re.match(r"\s*(?:\w+\.)?scaler\.step\(", line)]
    found = (
        re.fullmatch(r"(\s*)((?:\w+\.)?)scaler\.step\(([\w.]+)\)\s*", lines[steps[0]])
        if len(steps) == 1
        else None
    )
    if found and "unscale_" not in text:
        changed = with_line(lines, steps[0], f"{found[1]}{found[3]}.step()")
        yield PlantedFault("optimizer.step()", changed, steps[0] + 1, frozenset({"P129"}))


RANK_PLANTERS: tuple[Planter, ...] = (
    *(_all_data, _shuffled_twice, _alone_in_a_barrier, _saved_by_all, _never_wrapped),
    *(_stale_optimizer, _reentrant, _unscaled_step),
)
