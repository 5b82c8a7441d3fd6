"""Which services a script surely calls that need a login."""

import ast
from collections.abc import Iterator

from preflight.facts.script import ServiceUse
from preflight.probes.logins import GATED
from preflight.script.interpreter.arguments import given_words
from preflight.script.interpreter.branch_conditions import MAYBE, ONE_RANK, RANK_0
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import NONE, TRUE, Const, Seq, alternatives, text_of
from preflight.script.rules.certainty import doubts_of, tests_around

_REPORTS_TO_NONE = (5,)  # transformers from this version on, where nothing else is said


def find_services(it: Interpreter, event: ScriptEvent) -> Iterator[ServiceUse]:
    """Yield what an event surely calls."""
    uploads = event.name == "arguments" and it.attr(event.ref, "push_to_hub") == TRUE
    what = event.what if event.name == "service" else _tracker(it, event)
    if not (what or uploads) or not _is_sure(it, event):
        return
    if uploads:
        yield ServiceUse(event.place, "huggingface", "push_to_hub", first_rank=True)
    if what:
        by_first = event.name != "service" or RANK_0 in it.contexts
        yield ServiceUse(event.place, "huggingface" if GATED.match(what) else "wandb", what, by_first)


def _is_sure(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether the launch comes upon an event: which rank it is, is the one condition that is not known."""
    of_rank_0 = it.contexts.count(RANK_0)
    asks_more = of_rank_0 and any(isinstance(test, ast.BoolOp) for test in tests_around(it, event.place))
    doubts = {*doubts_of(it, event.place)} - {ONE_RANK}
    return not doubts or (doubts == {MAYBE} and it.contexts.count(MAYBE) <= of_rank_0 and not asks_more)


def _tracker(it: Interpreter, event: ScriptEvent) -> str:
    """Return the setting by which a Trainer or an Accelerator uses Weights & Biases, "" where none does."""
    name, targets = "log_with", event.call.get("log_with") if event.call is not None else None
    if event.name == "arguments" and it.attr(event.ref, "open") != TRUE:
        name, targets = "report_to", it.attr(event.ref, "report_to")
        version = it.target.version("transformers")
        if targets == NONE and version is not None and version < _REPORTS_TO_NONE:
            targets = Const("all")
        for _, word in (
            given_words(it.target.args, "report_to") if it.attr(event.ref, "parsed") == TRUE else ()
        ):
            targets = Const(word)
    elif event.name != "accelerator":
        return ""
    items = targets.items if isinstance(targets, Seq) else alternatives(targets or NONE)
    names = [text_of(item) for item in items]
    is_sure = isinstance(targets, Seq) or len(names) == 1
    return name if is_sure and {"wandb", "all"} & {*names} else ""
