"""Rule R425: what each process of Python hashes, and orders, in another way."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.files import JOINED
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, unparse, walk

_SETS_HASH = re.compile("PYTHONHASHSEED")
_OF_TEXTS = re.compile(
    r"(?i)word|token|name|label|class|categor|tag|char|text|vocab|string|split\(|user|item|key|species|lines?\b"
)
"""Names of what is a text: numbers are hashed alike in every process."""
_NUMBERS = "a set of texts has another order in each process, and so has what this numbers"
_DIVIDES = "hash() of a text is another in each process, so each rank divides the data in its own way"


@rule("R425", "end")
def order_of_each_process(it: Interpreter, _event: ScriptEvent) -> Iterator[RuleHit]:
    """hash() of a text, or the order of a set of texts, decides what ranks train on.

    Python hashes texts with a seed of the process. `enumerate(set(words))` numbers the classes or words in
    another way on each rank, so their labels do not fit the weights that they share; `hash(name) % 10` keeps
    other samples for validation. Nothing raises.
    Source: Python's documentation of PYTHONHASHSEED and object.__hash__.
    """
    if it.target.processes == 1 or not (it.state.wrapped or it.notes.get(JOINED)):
        return
    if it.sources.mention(_SETS_HASH):
        return
    for source in it.sources.files():
        for node in it.sources.parser.find_by_kind(_list_orders, source.tree):
            numbers = getattr(node.func, "id", "") == "enumerate"
            fix = "sorted(set(...))" if numbers else "zlib.crc32(text.encode())"
            yield RuleHit(source.place(node), _NUMBERS if numbers else _DIVIDES, fix, Level.WARNING)


def _list_orders(kinds: ByKind) -> list[ast.Call]:
    """Return calls that number a set of texts, and hashes of texts of which a remainder is taken."""
    found = list[ast.Call]()
    sets = {
        target.id
        for node in kinds.get(ast.Assign, ())
        for target in node.targets
        if isinstance(target, ast.Name) and _is_set_of_texts(node.value)
    }
    sorts = {
        unparse(node.func.value)
        for node in kinds.get(ast.Call, ())
        if isinstance(node.func, ast.Attribute) and node.func.attr == "sort"
    }
    stored = [
        target.id
        for node in kinds.get(ast.Assign, ())
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    for call in kinds.get(ast.Call, ()):
        given = call.args[0] if call.args else None
        if getattr(call.func, "id", "") == "enumerate" and given is not None:
            named = isinstance(given, ast.Name) and given.id in sets and given.id not in sorts
            once = isinstance(given, ast.Name) and stored.count(given.id) == 1
            if _is_set_of_texts(given) or (named and once):
                found.append(call)
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


def _is_set_of_texts(node: ast.expr) -> bool:
    """Whether `set(words)`, `list(set(words))` or a set that is built of words is given."""
    if (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("list", "tuple")
        and len(node.args) == 1
    ):
        return _is_set_of_texts(node.args[0])
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "set" and len(node.args) == 1:
        return _OF_TEXTS.search(unparse(node.args[0])) is not None
    return isinstance(node, ast.SetComp) and _OF_TEXTS.search(unparse(node)) is not None
