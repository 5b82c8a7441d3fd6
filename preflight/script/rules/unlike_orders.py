"""Rule R425: what each process of Python hashes, and orders, in another way."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.files import JOINED
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.rules.set_orders import list_set_uses
from preflight.script.syntax_trees import ByKind, walk

_SETS_HASH = re.compile("PYTHONHASHSEED")
_SETS = re.compile(r"\bset\(|\{[^{}:\n]+ for ")
_DIVIDES = "hash() of a text is another in each process, so each rank divides the data in its own way"


@rule("R425", "end")
def order_of_each_process(it: Interpreter, _event: ScriptEvent) -> Iterator[RuleHit]:
    """hash() of a text, or the order of a set of texts, decides what ranks train on.

    Python hashes texts with a seed of the process. `enumerate(set(words))` numbers the classes or words in
    another way on each rank, so their labels do not fit the weights that they share, and
    `list(set(names))[rank::n]` takes parts that overlap, as a shuffle does with one seed; `hash(name) % 10`
    keeps other samples for validation. Nothing raises.
    Source: Python's documentation of PYTHONHASHSEED and object.__hash__.
    """
    if it.target.processes == 1 or not (it.state.wrapped or it.notes.get(JOINED)):
        return
    if it.sources.mention(_SETS_HASH):
        return
    for source in it.sources.files():
        hashes = it.sources.parser.find_by_kind(_list_hashes, source.tree) if "hash(" in source.text else ()
        for node in hashes:
            yield RuleHit(source.place(node), _DIVIDES, "zlib.crc32(text.encode())", Level.WARNING)
        if it.sources.parser.make(_SETS.search, source.text):
            for made, does in it.sources.parser.find_by_kind(list_set_uses, source.tree):
                message = f"a set of texts has another order in each process, by which this {does}"
                yield RuleHit(source.place(made), message, "sorted(set(...))", Level.WARNING)


def _list_hashes(kinds: ByKind) -> list[ast.Call]:
    """Return hashes of texts of which a remainder is taken."""
    found = list[ast.Call]()
    for test in kinds.get(ast.Compare, ()):
        remainders = [
            part for part in walk(test) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)
        ]
        hashes = [
            call
            for part in remainders
            for call in walk(part.left)
            if getattr(getattr(call, "func", None), "id", "") == "hash"
        ]
        found += [
            call
            for call in hashes
            if isinstance(call, ast.Call) and call.args and not isinstance(call.args[0], ast.Tuple)
        ]
    return found
