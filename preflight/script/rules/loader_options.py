"""Rule R402: options that a DataLoader refuses."""

from collections.abc import Iterator

from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.data_loaders import is_iterable
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Const, Value
from preflight.script.values.constants import FALSE, NONE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, list_values, place_of

_OLD_PREFETCH = Const(2)  # prefetch_factor's default before torch 2.0, which allowed it without workers


@rule("R402", "loader")
def options_that_exclude_each_other(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A DataLoader is given options that exclude each other.

    It raises a ValueError: shuffle=True beside a sampler, any of batch_size, shuffle, sampler and drop_last
    beside a batch_sampler, shuffle=True or a sampler for an IterableDataset, persistent_workers or
    prefetch_factor without workers.
    Source: torch/utils/data/dataloader.py; each reproduced with torch 2.13.
    """
    loader, call = it.thing(event.ref), event.call
    if loader is None or call is None:
        return
    for keyword, reason, fix, sure in _conflicts(it, loader, call):
        level = Level.ERROR if sure else Level.WARNING
        yield RuleHit(call.get_place(keyword), f"DataLoader refuses {reason}", fix, level)


def _conflicts(it: Interpreter, loader: HeapObject, call: Call) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the keyword at fault, what is refused, the fix, and whether it is refused on every path."""
    shuffles = as_bool(loader.get("shuffle")) is True
    sampler, batches = (_given(loader.get(name)) for name in ("sampler", "batch_sampler"))
    if shuffles and sampler is not False:
        yield (
            "shuffle",
            "shuffle=True beside a sampler",
            "remove shuffle=True: the sampler shuffles",
            bool(sampler),
        )
    for keyword, refused in (
        ("batch_size", _given(loader.get("batch_size")) and loader.get("batch_size") != Const(1)),
        ("shuffle", shuffles),
        ("drop_last", as_bool(call.get("drop_last", 8) or FALSE) is True),
    ):
        if batches and refused and not call.maybe.issuperset((keyword, "batch_sampler")):  # of two branches
            fix = f"remove {keyword}=, which the batch_sampler decides"
            yield keyword, f"{keyword}= beside a batch_sampler", fix, True
    if all(is_iterable(it, item) for item in list_values(loader.get("dataset"))):
        for keyword, refused in (("shuffle", shuffles), ("sampler", sampler), ("batch_sampler", batches)):
            if refused:
                yield keyword, f"{keyword}= for an IterableDataset", f"remove {keyword}=", True
    workers = loader.get("num_workers")
    by_option = it.target.args is None and place_of(workers) in it.options.places  # others may well be given
    if workers in (NONE, Const(0)) and not call.open and not by_option:
        for keyword, value in (
            ("persistent_workers", call.get("persistent_workers") or FALSE),
            ("prefetch_factor", call.get("prefetch_factor") or FALSE),
        ):
            if all(isinstance(item, Const) and item.value for item in list_values(value)):
                allowed = keyword == "prefetch_factor" and value == _OLD_PREFETCH
                sure = not allowed or it.target.is_at_least("torch", 2) is True
                reason = f"{keyword}= without workers" + (", from torch 2.0 on" if allowed else "")
                if not allowed or it.target.is_at_least("torch", 2) is not False:
                    yield keyword, reason, "num_workers=4, or remove it", sure


def _given(value: Value) -> bool | None:
    """Whether an argument is given, None where it is on some paths only; what is not known counts as not."""
    items = list_values(value)
    if UNKNOWN in items or value == NONE:
        return False
    return None if NONE in items else True
