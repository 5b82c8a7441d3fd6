"""What a rank does alone whose batch fails: it continues with the next one, out of step with the others."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branches import OF_RANKS
from preflight.script.interpreter.events import THROUGH, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import is_agreed_in
from preflight.script.rules.registry import Level, RuleHit
from preflight.script.syntax_trees import unparse, walk

_OF_MEMORY = re.compile(r"out of memory|OutOfMemory|\.empty_cache\(\)")
_ENDS = re.compile(r"exit|abort|raise")
_NO_MEMORY = "a rank that has no memory left continues with its next batch, and the others wait in this one"
_FAILED = "a rank whose batch fails continues with its next one, and the others wait for its backward()"
_END_ALL = "raise: a launch ends all ranks, and a smaller batch or gradient accumulation avoids it"
AGREED = "agree first: dist.all_reduce() of the decision, so that all ranks take the same way"


def find_failed_batches(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield the handler behind which a rank without memory continues, out of step with the others."""
    several = it.state.wrapped or event.what == "accelerator"
    if not several or not it.loop_depth or not OF_RANKS.isdisjoint(it.contexts):
        return
    yield from _find_skipped_backwards(it, event)
    caught = {loop.place for loop in it.loops if loop.caught}
    for path in dict.fromkeys((event.place.path, *(place.path for place in caught))):
        source = it.sources.get(path)
        if source is None or not it.sources.parser.make(_OF_MEMORY.search, source.text):
            continue
        for node in it.sources.parser.list_nodes(source.tree, ast.Try):
            last = node.body[-1].end_lineno or 0
            around = path == event.place.path and node.lineno <= event.place.line <= last
            for handler in node.handlers if around or source.place(node) in caught else ():
                if _passes_over(handler) and not is_agreed_in(it, [*walk(handler), *it.nodes]):
                    yield RuleHit(source.place(handler), _NO_MEMORY, _END_ALL, Level.WARNING)


def _find_skipped_backwards(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a handler of what the model raises for a batch, behind which the rank leaves out backward()."""
    through = [place.line for place in it.notes.get(THROUGH, ()) if place.path == event.place.path]
    loops: list[ast.For | ast.While] = []
    if through:
        loops += [*it.list_nodes(ast.For), *it.list_nodes(ast.While)]
    for loop in loops:
        tries = [node for node in loop.body if isinstance(node, ast.Try)]
        for node in tries if loop.lineno < event.place.line <= (loop.end_lineno or 0) else ():
            last = node.body[-1].end_lineno or 0
            if event.place.line <= last or not any(node.lineno <= line <= last for line in through):
                continue
            for handler in node.handlers:
                skips = isinstance(handler.body[-1], ast.Continue) and "Stop" not in unparse(handler)
                if skips and not is_agreed_in(it, [*walk(handler), *it.nodes]):
                    yield RuleHit(it.place(handler.body[-1]), _FAILED, AGREED, Level.WARNING)


def _passes_over(handler: ast.ExceptHandler) -> bool:
    """Whether a handler of a lack of memory lets the loop continue."""
    if not _OF_MEMORY.search(unparse(handler)):
        return False
    ifs = (each for each in handler.body if isinstance(each, ast.If))
    last = next((each for each in ifs if _OF_MEMORY.search(unparse(each.test))), handler).body[-1]
    if not isinstance(last, (ast.Continue, ast.Break, ast.Return, ast.Raise)):
        last = last if _ENDS.search(unparse(last)) else handler.body[-1]
    return not _ENDS.search(unparse(last)) and not isinstance(last, (ast.Return, ast.Break))
