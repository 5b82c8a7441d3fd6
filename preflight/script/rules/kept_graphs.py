"""Rules P139 and P140: graphs that outlive their turn of a loop."""

import ast
from collections.abc import Iterator, Sequence

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.graph_syntax import (
    BACKWARDS,
    LOOPS,
    LOSSES,
    SAME,
    find_names,
    is_of_data,
    list_words,
)
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, root_of, unparse, walk
from preflight.script.values import Class, Const
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.heap import HeapObject

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOSSES = re.compile(LOSSES)
_LOSS_NAMES = re.compile(r"(?i)loss|err|cost|^l\d?$|objective|nll|elbo|crit")
_PLAIN = frozenset({"item", "detach", "float", "tolist", "numpy"})  # calls whose result has no graph
_EMPTIES = frozenset({"clear", "pop", "popleft", "detach_"})
_VALIDATES = re.compile(
    r"(?i)(?:^|_)(?:val|valid|validat\w*|dev|test|testing|eval\w*)(?:_|$|\d)|val_?(?:load|dl)|test_?load"
)
_SWITCHES = re.compile("set_grad_enabled")
_NO_GRADS = re.compile(r"no_grad|inference_mode|set_grad_enabled")
_CUTS = re.compile(r"detach|repackage|no_grad|inference_mode|\.data\b")


@rule("P139", "backward", "scaled", "forward")
def graph_kept_from_turn_to_turn(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A loop adds up, or collects, losses or outputs with their graphs.

    `total += loss` and `outputs.append(model(x))` keep what backward() needs, or needed, of every batch:
    memory grows until it is out. `loss.item()`, `.detach()` and, in validation, torch.no_grad() keep none.
    Source: torch's FAQ, "My model reports out of memory".
    """
    call, parser = event.call, it.sources.parser
    if call is None or not it.loop_depth or "no_grad" in it.contexts:
        return
    node = it.scope
    if event.name == "forward":
        thing = it.thing(event.ref)
        if thing is None or thing.get("trainable") == Const("none") or "training" in it.contexts:
            return
        for loop, own, calls, named in parser.find_by_kind(_quiet_loops, node):
            if id(call.node) not in calls or not (named or thing.get("only_used", NONE) == TRUE):
                continue
            if it.sources.mention(_SWITCHES) or _lets_go(it, thing):
                return
            for kept in _kept_outputs(node, loop, own, call.node):
                message = "this keeps the graph of every batch: the loop is under no torch.no_grad()"
                fix = "with torch.no_grad(): around the loop, or .item() and .detach()"
                yield RuleHit(it.place(kept), message, fix, Level.WARNING)
        return
    for kept in parser.find_by_kind(_kept_losses, node):
        if isinstance(kept, ast.Expr) and "maxlen" in it.source.text:
            continue  # the latest few
        message = "this keeps the graph of every batch's loss"
        yield RuleHit(it.place(kept), message, f"{_kept(kept)}.detach()", Level.WARNING)


def _kept(node: ast.stmt) -> str:
    """Return what a statement adds or collects; detach() of it stays a tensor, which later lines may need."""
    value: ast.AST = getattr(node, "value", node)
    value = value.right if isinstance(node, ast.Assign) and isinstance(value, ast.BinOp) else value
    value = value.args[0] if isinstance(node, ast.Expr) and isinstance(value, ast.Call) else value
    return f"({unparse(value)})" if isinstance(value, ast.BinOp) else unparse(value)


def _lets_go(it: Interpreter, thing: HeapObject) -> bool:
    """Whether a class of the script may give its results without their graph."""
    cls = thing.get("__class__")
    infos = it.mro(cls.key) if isinstance(cls, Class) else ()
    return any(_CUTS.search(unparse(info.node)) for info in infos)


def _statements(body: Sequence[ast.stmt], loop: ast.AST | None = None) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """Yield the statements of a function with the innermost loop around each, none under torch.no_grad()."""
    for node in body:
        if isinstance(node, _SCOPES):
            continue
        if loop is not None:
            yield node, loop
        if not hasattr(node, "body"):
            continue
        if isinstance(node, (ast.With, ast.AsyncWith)) and any(
            _NO_GRADS.search(unparse(item.context_expr)) for item in node.items
        ):
            continue
        inner = node if isinstance(node, LOOPS) else loop
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, name, ()), inner)
        for handler in getattr(node, "handlers", ()):
            yield from _statements(handler.body, inner)


def _kept_losses(kinds: ByKind) -> list[ast.stmt]:
    """Return the statements that keep a loss of which the same loop calls backward()."""
    found: list[ast.stmt] = []
    if not _may_keep(kinds):
        return found
    root = root_of(kinds)
    lines = [node.lineno for node in kinds[ast.Call] if getattr(node.func, "attr", "") in BACKWARDS]
    inner = kinds.get(ast.FunctionDef, ()) if isinstance(root, ast.Module) else ()
    bodies = [root, *(each for each in inner if any(each.lineno <= at <= each.end_lineno for at in lines))]
    for scope in bodies:
        body = getattr(scope, "body", ())
        sources = [name for node in body for name in _backwarded(node)] if isinstance(body, list) else []
        if not sources:
            continue
        statements = list(_statements(body))
        fed = set(sources) | {
            name
            for node in walk(scope)
            if isinstance(node, ast.Assign) and find_names(node.targets) & set(sources)
            for name in find_names([node.value])
        }
        for loop in {id(loop): loop for _, loop in statements}.values():
            own = [node for node, around in statements if around is loop]
            losses = {name for node in own if not isinstance(node, LOOPS) for name in _backwarded(node)}
            for node in own:
                if isinstance(node, ast.Assign) and find_names(node.targets) & losses:
                    losses |= _operands(node.value)
            losses -= _given_anew(own, losses)
            outer = next((around for node, around in statements if node is loop), None)
            of_batch = is_of_data(getattr(outer, "iter", loop)) and not is_of_data(
                getattr(loop, "iter", loop)
            )
            turns = (
                outer if outer is not None and of_batch else loop
            )  # what a batch empties, it keeps no longer
            found += [node for node in own if _keeps(node, losses, turns, fed)] if losses else []
    return found


def _may_keep(kinds: ByKind) -> bool:
    """Whether a statement adds or collects what has a name of a loss: few do, and are looked at closer."""
    calls = kinds.get(ast.Call, ())
    if not any(getattr(node.func, "attr", "") in BACKWARDS for node in calls):
        return False
    values = [node.value for node in kinds.get(ast.AugAssign, ())]
    values += [node.value for node in kinds.get(ast.Assign, ()) if isinstance(node.value, ast.BinOp)]
    values += [node.args[0] for node in calls if getattr(node.func, "attr", "") == "append" and node.args]
    for value in values:
        of_item = isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "item"
        parts = [] if of_item else walk(value)
        if any(isinstance(part, ast.Name) and _LOSS_NAMES.search(part.id) for part in parts):
            return True
    return False


def _given_anew(own: Sequence[ast.stmt], losses: set[str]) -> set[str]:
    """Return the names that a loop gives a second value, or one without a graph: `loss = loss.item()`."""
    count, cut = dict[str, int](), set[str]()
    for node in (each for each in own if isinstance(each, ast.Assign)):
        is_plain = getattr(getattr(node.value, "func", None), "attr", "") in _PLAIN - SAME
        for name in find_names(node.targets) & losses:
            again = name in find_names([node.value])
            if is_plain or (again and not _carries(node.value, losses, strict=False)):
                cut.add(name)
            elif not again:
                count[name] = count.get(name, 0) + 1
    for part in (part for node in own for part in walk(node)):
        if type(part) is ast.Attribute and part.attr == "detach_":
            cut |= find_names([part.value])
    return cut | {name for name, times in count.items() if times > 1}


_Quiet = tuple[ast.AST, list[ast.stmt], set[int], bool]


def _quiet_loops(kinds: ByKind) -> list[_Quiet]:
    """Return the loops over data of a function or file that call no backward(): what each has and calls.

    The last says whether its names, or that of its function, are those of validation.
    """
    scope, found = root_of(kinds), list[_Quiet]()
    calls = [getattr(node.func, "attr", "") for node in kinds.get(ast.Call, ())]
    if "append" not in calls and ast.AugAssign not in kinds and ast.BinOp not in kinds:
        return found
    if len(kinds.get(ast.For, ())) < 2 and not BACKWARDS.isdisjoint(calls):
        return found
    if not any(is_of_data(node.iter) for node in kinds.get(ast.For, ())):
        return found
    of_validation = _VALIDATES.search(getattr(scope, "name", "")) is not None
    statements = _in_loops(scope)
    for loop in {id(around): around for _, around in statements}.values():
        drawn = loop.iter if isinstance(loop, (ast.For, ast.AsyncFor)) else None
        if drawn is None or not is_of_data(drawn) or _backwarded(loop):
            continue
        own = [node for node, around in statements if around is loop]
        inside = {id(part) for node in own for part in walk(node) if isinstance(part, ast.Call)}
        found.append(
            (loop, own, inside, of_validation or any(map(_VALIDATES.search, list_words(drawn).split())))
        )
    return found


def _in_loops(scope: ast.AST) -> list[tuple[ast.stmt, ast.AST]]:
    """Return the statements of a function or file in loops, none of functions in it."""
    body = getattr(scope, "body", ())
    return list(_statements(body)) if isinstance(body, list) else []


def _kept_outputs(
    scope: ast.AST, loop: ast.AST, own: Sequence[ast.stmt], forward: ast.Call
) -> list[ast.stmt]:
    """Return the statements of a loop of validation that keep what a call of the model gives."""
    carried: set[str] = set()
    for node in own:
        if isinstance(node, ast.Assign):
            if _carries(node.value, carried, forward):
                carried |= find_names(node.targets)
            else:
                carried -= find_names(node.targets)
    fed = set(_backwarded(scope, BACKWARDS | {"grad"}))
    return [node for node in own if _keeps(node, carried, loop, fed, forward)]


def _backwarded(node: ast.AST, calls: frozenset[str] = BACKWARDS) -> list[str]:
    """Return the names of which something calls backward(), or which it gets; or torch.autograd.grad()."""
    found: list[str] = []
    for part in walk(node):
        if type(part) is ast.Call and getattr(part.func, "attr", "") in calls:
            owner = part.func.value if isinstance(part.func, ast.Attribute) else part
            given = [owner] if not part.args or "scale" in unparse(owner) else list(part.args)
            found += [
                each.id
                for item in given
                for each in walk(item)
                if isinstance(each, ast.Name) and each.id != "self"
            ]
    return found


def _operands(node: ast.expr) -> set[str]:
    """Return the names that an arithmetic expression is made of."""
    if isinstance(node, ast.BinOp):
        return _operands(node.left) | _operands(node.right)
    return {node.id} if isinstance(node, ast.Name) and _LOSSES.search(node.id) else set()


def _carries(node: ast.AST, names: set[str], forward: ast.Call | None = None, *, strict: bool = True) -> bool:
    """Whether a value has the graph of one of these names, or of a call of the model."""
    if node is forward:
        return True
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.BinOp):
        return any(_carries(part, names, forward, strict=strict) for part in (node.left, node.right))
    if isinstance(node, ast.Attribute):
        return node.attr in ("loss", "logits", "sample", "prediction") and _carries(
            node.value, names, forward
        )
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_carries(part, names, forward) for part in node.elts)
    if isinstance(node, ast.Dict):
        return any(_carries(part, names, forward) for part in node.values)
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if isinstance(node.func, ast.Attribute) and name in SAME:
            return _carries(node.func.value, names, forward, strict=strict)
        given = [*node.args, *(word.value for word in node.keywords)]
        if _LOSSES.search(name) or name == "sum":
            return any(_carries(part, names, forward) for part in given)
        return not strict and name not in _PLAIN
    return not strict and not isinstance(node, ast.Constant)


def _keeps(
    node: ast.stmt, names: set[str], loop: ast.AST, fed: set[str], forward: ast.Call | None = None
) -> bool:
    """Whether a statement adds a value with a graph to what outlives the turn, and is not trained on."""
    target: ast.expr | None = None
    value: ast.expr | None = None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        target, value = node.target, node.value
    elif (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, ast.Add)
    ):
        target, value = node.targets[0], node.value.right
        if unparse(node.value.left) != unparse(target):
            return False
    elif (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "append"
        and node.value.args
    ):
        target, value = node.value.func.value, node.value.args[0]
    if target is None or value is None or not _carries(value, names, forward):
        return False
    while isinstance(target, ast.Subscript):
        target = target.value
    text, root = unparse(target), next(iter(find_names([target]) - {"self"}), "")
    bound = {unparse(part) for item in walk(loop) for part in _bound(item, node)}
    return not (root in fed or root in names or text in bound or root in bound)


def _bound(item: ast.AST, besides: ast.stmt) -> list[ast.expr]:
    """Return what a statement gives a value, or empties."""
    if item is besides:
        return []
    if isinstance(item, ast.Assign):
        return [part for target in item.targets for part in getattr(target, "elts", [target])]
    if isinstance(item, (ast.For, ast.AsyncFor)):
        return [part for part in walk(item.target) if isinstance(part, ast.Name)]
    if isinstance(item, ast.Call) and getattr(item.func, "attr", "") in _EMPTIES:
        return [item.func.value] if isinstance(item.func, ast.Attribute) else []
    return []


@rule("P140", "forward")
def state_carried_with_its_graph(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A recurrent state goes from batch to batch with its graph: `out, h = model(x, h)` without detach().

    The second backward() goes through the first batch again: "Trying to backward through the graph a second
    time". With retain_graph=True it does so without an error, slower and with more memory at each batch.
    Source: torch's word_language_model example, repackage_hidden; reproduced with torch 2.13.
    """
    call = event.call
    if call is None or not it.loop_depth or "no_grad" in it.contexts or "backward" not in it.source.text:
        return
    for node, name, kept in it.sources.parser.find_by_kind(_carried, it.scope):
        thing = it.thing(event.ref)
        if node is call.node and not (thing and _lets_go(it, thing)):
            place = it.place(kept) if kept is not None else event.place
            message = f"`{name}` carries the graph of each batch into the next"
            related = (event.place,) if kept is not None else ()
            yield RuleHit(
                place, message, f"{name} = {name}.detach() before each turn", Level.WARNING, related
            )


def _names_through(node: ast.Assign) -> set[str]:
    """Return the names that a call gets and gives: `h` of `out, h = model(x, h)`."""
    given = node.value.args if isinstance(node.value, ast.Call) else []
    names = {part.id for part in given if isinstance(part, ast.Name)}
    return names & find_names(node.targets) if names else names


def _carried(kinds: ByKind) -> list[tuple[ast.Call, str, ast.AST | None]]:
    """Return the calls that get and give one name, in a loop that calls backward(), with its retain_graph."""
    found: list[tuple[ast.Call, str, ast.AST | None]] = []
    chosen = {id(node): names for node in kinds.get(ast.Assign, ()) if (names := _names_through(node))}
    statements = _in_loops(root_of(kinds)) if chosen else []
    for node, loop in statements:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or id(node) not in chosen:
            continue
        own = [each for each, around in statements if around is loop]
        for name in chosen[id(node)]:
            stepped = any(_backwarded(each) for each in own if isinstance(each, (ast.Expr, ast.With, ast.If)))
            others = [
                each for each in walk(loop) if each is not node and isinstance(each, (ast.Assign, ast.For))
            ]
            again = any(name in {getattr(part, "id", "") for part in _bound(each, node)} for each in others)
            if not stepped or again or _CUTS.search(unparse(loop)):
                continue
            kept = (part for each in own for part in walk(each) if getattr(part, "arg", "") == "retain_graph")
            found.append((node.value, name, next(kept, None)))
    return found
