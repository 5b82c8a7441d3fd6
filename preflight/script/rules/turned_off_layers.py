"""Layers that a module which DistributedDataParallel wraps uses in some turns of the training only."""

import ast
from collections.abc import Iterator, Mapping

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import Call, ClassInfo
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.rules.own_measures import get_last_name, list_stores
from preflight.script.rules.turn_conditions import TurnConditions
from preflight.script.syntax_trees import ByKind, unparse, walk
from preflight.script.values import Class, Ref
from preflight.script.values.constants import NONE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text

_WEIGHS = re.compile(
    r"torch\.nn\.(?:Linear|Bilinear|Conv|Embedding|LSTM|GRU|RNN|Transformer|Multihead|LayerNorm|GroupNorm|BatchNorm)"
)
_HOLDS_WEIGHTS = re.compile(r"\bnn\.(?:Linear|Conv|Embedding|LSTM|GRU|Transformer|Multihead)")
_CHANCES = re.compile(r"(?:^|\.)(?:rand|random|uniform|bernoulli|randint|rand_like|choice)$")
_COUNTERS = re.compile(r"(?:^|_)(?:epoch|step|steps|iteration|iter|iters|it|niter|ep|batch_idx)(?:_|$)")
_OF_LIGHTNING = re.compile(r"self\.(?:trainer\.)?(?:current_epoch|global_step)")
_COMPARES = (ast.Lt, ast.Gt, ast.LtE, ast.GtE, ast.Eq, ast.NotEq)

Use = tuple[ast.AST, tuple[ast.expr, ...]]  # of a layer: where, and under which conditions


def list_turned_off_layers(
    it: Interpreter, model: int, call: Call | None, method: str = "forward"
) -> Iterator[tuple[str, CodeLocation]]:
    """Yield the layers of a wrapped module that are left out in some turns, with where each is used."""
    thing = it.thing(model)
    cls = thing.get("__class__") if thing is not None else None
    infos = list(it.mro(cls.key)) if isinstance(cls, Class) else []
    if thing is None or not infos:
        return
    info = infos[0]
    uses = it.sources.parser.find_by_kind(_USES_OF[method], info.node)
    for layer, found in uses.items():
        if not found or not all(tests for _, tests in found) or not _has_weights(it, thing, info, layer):
            continue
        if all(any(_varies(it, thing, info, test, call, method) for test in tests) for _, tests in found):
            yield layer, info.source.place(found[0][0])


def _uses_of_forward(kinds: ByKind) -> dict[str, list[Use]]:
    return _list_uses("forward", kinds)


def _uses_of_training_step(kinds: ByKind) -> dict[str, list[Use]]:
    return _list_uses("training_step", kinds)


_USES_OF = {"forward": _uses_of_forward, "training_step": _uses_of_training_step}


def _list_uses(method: str, kinds: ByKind) -> dict[str, list[Use]]:
    """Return the uses of each layer of a class, reached from one of its methods, with their conditions."""
    cls = next(iter(kinds.get(ast.ClassDef, ())), None)
    methods = {node.name: node for node in getattr(cls, "body", ()) if isinstance(node, ast.FunctionDef)}
    if method not in methods:
        return {}
    conditions = TurnConditions(kinds)
    uses: dict[str, list[Use]] = {}
    waiting = list[tuple[str, tuple[ast.expr, ...]]]([(method, ())])
    seen = {method}
    for name, outer in waiting:  # which grows
        for node in walk(methods[name]):
            if not isinstance(node, ast.Attribute) or getattr(node.value, "id", "") != "self":
                continue
            around = (*outer, *(test for test, _ in conditions.list_conditions(node, all_loops=True)))
            if node.attr in methods:
                if node.attr not in seen:
                    seen.add(node.attr)
                    waiting.append((node.attr, around))
            elif isinstance(node.ctx, ast.Load) and not _is_asked(conditions, node):
                uses.setdefault(node.attr, []).extend(_list_used(conditions, node, around))
    others = {
        part.attr
        for name, node in methods.items()
        if name not in (*seen, "__init__") and not _NO_TRAINING.search(name)
        for part in walk(node)
        if isinstance(part, ast.Attribute)
    }
    return {layer: found for layer, found in uses.items() if layer not in others}


_NO_TRAINING = re.compile(
    r"valid|test|eval|predict|infer|sampl|generat|init|reset|configure_optim|load|save|freeze"
)


def _is_asked(conditions: TurnConditions, node: ast.AST) -> bool:
    """Whether a use is part of a condition, as `self.aux is not None`."""
    return any(part is getattr(holder, "test", None) for holder, part in conditions.list_holders(node))


def _list_used(conditions: TurnConditions, node: ast.Attribute, around: tuple[ast.expr, ...]) -> list[Use]:
    """Return the uses of a layer; of one that a loop takes of a list, those of the name that it has in it."""
    loop = next(
        (
            holder
            for holder, part in conditions.list_holders(node)
            if isinstance(holder, ast.For) and part is holder.iter
        ),
        None,
    )
    if loop is None:
        return [(node, around)]
    names = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    called = [
        part
        for part in walk(loop)
        if isinstance(part, ast.Call)
        and (
            getattr(part.func, "id", "") in names
            or any(getattr(each, "id", "") in names for each in part.args)
        )
    ]
    return [
        (part, tuple(test for test, _ in conditions.list_conditions(part, all_loops=True))) for part in called
    ] or [(node, ())]


def _has_weights(it: Interpreter, thing: HeapObject, info: ClassInfo, layer: str) -> bool:
    held = thing.get(layer)
    if isinstance(held, Ref) and it.kind(held) == "model":
        names = (as_text(it.attr(part, "__name__")) or "" for part in list_parts(it, held.id))
        if any(map(_WEIGHS.match, names)):
            return True
    stores = it.sources.parser.find(list_stores, info.node).get(f"self.{layer}", ())
    return any(_HOLDS_WEIGHTS.search(unparse(value)) for value, _ in stores)


def _varies(
    it: Interpreter, thing: HeapObject, info: ClassInfo, test: ast.expr, call: Call | None, method: str
) -> bool:
    """Whether a condition holds in some turns of the training and not in others."""
    if _is_by_chance(thing, test):
        return True
    if _OF_LIGHTNING.search(unparse(test)) and _compares(test):
        return True
    varies = False
    for part in walk(test):
        if isinstance(part, ast.Name):
            given = _find_argument(info, method, part.id, call)
            if given is not None and (_is_of_turn(it, given) or (_compares(test) and _is_counter(it, given))):
                return True
        elif isinstance(part, ast.Attribute) and getattr(part.value, "id", "") == "self":
            varies = varies or _is_set_by_turn(it, part.attr)
    return varies


def _compares(test: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Compare)
        and isinstance(part.ops[0], _COMPARES)
        and not (isinstance(part.comparators[0], ast.Constant) and part.comparators[0].value is None)
        for part in walk(test)
    )


def _is_by_chance(thing: HeapObject, test: ast.expr) -> bool:
    """Whether chance decides, with a probability that is known and is not zero."""
    for part in (each for each in walk(test) if isinstance(each, ast.Compare)):
        sides = (part.left, *part.comparators)
        drawn = [
            side
            for side in sides
            if any(isinstance(each, ast.Call) and _CHANCES.search(unparse(each.func)) for each in walk(side))
        ]
        for side in (each for each in sides if each not in drawn) if drawn else ():
            of_model = isinstance(side, ast.Attribute) and getattr(side.value, "id", "") == "self"
            held = thing.get(side.attr) if of_model and isinstance(side, ast.Attribute) else NONE
            value = side.value if isinstance(side, ast.Constant) else getattr(held, "value", None)
            if isinstance(value, float) and 0 < value < 1:
                return True
    return False


def _find_argument(info: ClassInfo, method: str, name: str, call: Call | None) -> ast.expr | None:
    """Return what training gives a parameter of forward()."""
    node = next((each for each in info.node.body if getattr(each, "name", "") == method), None)
    if call is None or not isinstance(node, ast.FunctionDef) or call.open:
        return None
    params = [each.arg for each in node.args.args[1:]]
    given: Mapping[str, ast.expr] = {
        **dict(zip(params, call.node.args, strict=False)),
        **{word.arg: word.value for word in call.node.keywords if word.arg},
    }
    return given.get(name)


def _is_counter(it: Interpreter, given: ast.expr) -> bool:
    """Whether an argument is a number of the turn: a loop counts it, or it is counted up."""
    if not isinstance(given, (ast.Name, ast.Attribute)) or not _COUNTERS.search(get_last_name(given)):
        return False
    name = unparse(given)
    loops = (node for node in it.list_nodes(ast.For))
    targets = {part.id for loop in loops for part in walk(loop.target) if isinstance(part, ast.Name)}
    counted = {unparse(node.target) for node in it.list_nodes(ast.AugAssign)}
    return name in targets | counted


def _is_of_turn(it: Interpreter, given: ast.expr, depth: int = 2) -> bool:
    """Whether an argument is another in other turns: `epoch >= 5`, `random.random() < 0.5`."""
    if isinstance(given, (ast.Name, ast.Attribute)) and depth:
        stores = it.sources.parser.find(list_stores, it.scope).get(unparse(given), ())
        return len(stores) == 1 and _is_of_turn(it, stores[0][0], depth - 1)
    if isinstance(given, ast.IfExp):
        return _is_of_turn(it, given.test, depth)
    for part in walk(given):
        if isinstance(part, ast.Compare) and _compares(part):
            if any(
                _is_counter(it, side)
                for each in (part.left, *part.comparators)
                for side in walk(each)
                if isinstance(side, (ast.Name, ast.Attribute))
            ):
                return True
            if any(isinstance(each, ast.Call) and _CHANCES.search(unparse(each.func)) for each in walk(part)):
                return True
    return isinstance(given, ast.Call) and unparse(given.func) in ("random.choice", "np.random.choice")


def _is_set_by_turn(it: Interpreter, name: str) -> bool:
    """Whether the training sets an attribute of the model by the number of the turn."""
    for node in it.list_nodes(ast.Assign):
        for target in node.targets:
            if (
                isinstance(target, ast.Attribute)
                and target.attr == name
                and getattr(target.value, "id", "") != "self"
            ):
                return _is_of_turn(it, node.value)
    return False
