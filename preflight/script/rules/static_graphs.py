"""Rule R431: a graph that is said to be static, of a model whose steps go different ways."""

import ast
from collections.abc import Iterator, Sequence

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Class
from preflight.script.values.constants import TRUE

_CHANGES = re.compile(r" % |\brandom\b|\brand(?:int|n|om)?\(|\bchoice\(|\bnext\(|\bsample\(")
"""What has another value from step to step."""
_FIX = "find_unused_parameters=True in place of static_graph=True, or one way through the model in each step"


@rule("R431", "ddp")
def static_graph_of_steps_that_differ(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """DistributedDataParallel(static_graph=True) around a model of which steps use unlike parts.

    DDP learns in the first step which parameters get gradients, and in which order: a later step that uses
    others stops ("Your training graph has changed in this iteration"), or leaves gradients of some ranks'
    own. A head that is chosen by an argument which the loop changes is such a model, and so is a layer that
    forward() leaves out at random.
    Source: torch.nn.parallel.DistributedDataParallel, static_graph.
    """
    cls = it.attr(event.ref, "__class__")
    if event.call is None or event.call.get("static_graph") != TRUE or not isinstance(cls, Class):
        return
    for info in it.mro(cls.key):
        forwards = [part for part in info.node.body if getattr(part, "name", "") == "forward"]
        for forward in (part for part in forwards if isinstance(part, ast.FunctionDef)):
            if (chosen := _find_choice(it, forward)) is not None:
                place = info.source.place(chosen)
                message = "static_graph=True, and steps use other parts of the model than the first one did"
                yield RuleHit(event.call.get_place("static_graph"), message, _FIX, Level.WARNING, (place,))
                return


def _find_choice(it: Interpreter, forward: ast.FunctionDef) -> ast.AST | None:
    """Return what chooses other layers in some calls of forward(), None where nothing is known to."""
    nodes = walk(forward)
    names = [each.arg for each in forward.args.args[1:]]
    for node in nodes:
        if isinstance(node, (ast.If, ast.IfExp)):
            taken = node.body if isinstance(node.body, list) else [node.body]
            rest = node.orelse if isinstance(node.orelse, list) else [node.orelse]
            if _list_layers(taken) == _list_layers(rest):
                continue
            asked: ast.expr = node.test
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            if not unparse(node.func.value).startswith("self."):
                continue
            asked = node.func.slice
        else:
            continue
        if _CHANGES.search(unparse(asked)):
            return node
        if not isinstance(asked, ast.Compare) or isinstance(
            asked.ops[0], (ast.Eq, ast.NotEq, ast.Gt, ast.Lt)
        ):
            inside = {part.id for part in walk(asked) if isinstance(part, ast.Name)}
            if any(_is_changed(it, name, names.index(name)) for name in names if name in inside):
                return node
    return None


def _list_layers(body: Sequence[ast.AST]) -> set[str]:
    """Return the layers of the model that a branch calls."""
    calls = (part.func for node in body for part in walk(node) if isinstance(part, ast.Call))
    return {unparse(func) for func in calls if unparse(func).startswith("self.")}


def _is_changed(it: Interpreter, name: str, at: int) -> bool:
    """Whether a loop gives a model another value for this argument from turn to turn."""
    for source in it.sources.files():
        for loop in it.sources.parser.list_nodes(source.tree, ast.For, ast.While):
            nodes = walk(loop)
            stores = [node for node in nodes if isinstance(node, ast.Assign)]
            changed = {unparse(node.targets[0]) for node in stores if _CHANGES.search(unparse(node.value))}
            trains = any(isinstance(part, ast.Call) and get_last_name(part) == "backward" for part in nodes)
            for call in (part for part in nodes if trains and isinstance(part, ast.Call)):
                given = next((word.value for word in call.keywords if word.arg == name), None)
                placed = call.args[at] if at < len(call.args) and _is_model(call) else None
                value = given if given is not None and _is_model(call) else placed
                if value is not None and (unparse(value) in changed or _CHANGES.search(unparse(value))):
                    return True
    return False


def _is_model(call: ast.Call) -> bool:
    return re.search(r"(?i)net|model|ddp|module", get_last_name(call)) is not None
