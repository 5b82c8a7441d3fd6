"""Rule P141: a backward() that finds no graph, or one that an earlier backward() has freed."""

import ast
from collections.abc import Iterator, Sequence

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.graph_syntax import BACKWARDS, LOOPS, LOSSES, SAME, find_names
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import list_names
from preflight.script.syntax_trees import ByKind, unparse, walk
from preflight.script.values import Class, Const, ExternalName, Func, Ref
from preflight.script.values.constants import NONE
from preflight.script.values.operations import as_text

_LOSSES = re.compile(LOSSES + "|^crit$|l1|gan")
_MODELS = re.compile(
    r"(?i)^(?:self\.)?(?:\w*(?:model|net|network|encoder|decoder|generator|discriminator|critic|actor|policy)\w*|[GD]|net_?[A-Z]\w*|[gd]en|dis[c]?|gen)$"
)
_CUTS = frozenset({"detach", "item", "numpy", "tolist", "argmax"})
_QUIETS = re.compile("no_grad|inference_mode")
_SIGNS = frozenset({"detach", "no_grad", "inference_mode", "argmax", "numpy"})
_MAKERS = frozenset({"tensor", "as_tensor", "from_numpy"})
_ANEW = frozenset(
    {"requires_grad", "requires_grad_", "retain_graph", "create_graph", "grad", "checkpoint", "closure"}
)
"""Names in a loop that keeps its graphs on purpose, or makes others."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    """What is known of a name: whether it has a graph ("live", "cut", or "data"), and of which forwards."""

    kind: str
    roots: frozenset[ast.Call] = frozenset()
    by: frozenset[ast.Call] = frozenset()  # the losses that it went through


_DATA, _CUT, _LIVE = _Tensor("data"), _Tensor("cut"), _Tensor("live")


@rule("P141", "backward", "scaled")
def backward_without_its_graph(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """backward() of a loss without a graph, or through a graph that another backward() has freed.

    A forward under torch.no_grad(), or a detach() before the loss: "element 0 of tensors does not require
    grad". Two losses of one forward, each with a backward() of its own: "Trying to backward through the graph
    a second time"; a GAN's discriminator takes `fake.detach()`.
    Source: torch's documentation of autograd; each reproduced with torch 2.13.
    """
    call = event.call
    if call is None or not it.loop_depth or "no_grad" in it.contexts:
        return
    for node, loss in it.sources.parser.find_by_kind(_faults, it.scope):
        if not node.lineno <= call.node.lineno <= (node.end_lineno or 0):
            continue
        if loss.kind != "cut":
            message = "this goes through a graph that the backward() before it has freed"
            fix = "one backward() of the sum of the losses; a GAN's discriminator takes fake.detach()"
            if all(_is_quiet(it, root) for root in loss.roots) or any(
                _detaches(it, each) for each in loss.by
            ):
                continue
        else:
            message = "this loss has no graph: it comes from a forward under no_grad(), or is detached"
            fix = "run the forward of training with gradients, and detach nothing of it"
            if not all(_is_of_torch(it, each) for each in loss.by):
                continue  # a loss of the script's own may have weights, or call the model
        yield RuleHit(it.place(node), message, fix, Level.WARNING)


def _is_of_torch(it: Interpreter, loss: ast.Call) -> bool:
    value = it.evaluate(loss.func)
    thing = it.thing(value) if isinstance(value, Ref) else None
    name = value.name if isinstance(value, ExternalName) else as_text(thing.get("__name__")) if thing else ""
    return (name or "").startswith("torch.")


def _detaches(it: Interpreter, loss: ast.Call) -> bool:
    """Whether a loss of the script's own may detach what it is given, as for a GAN's discriminator."""
    value = it.evaluate(loss.func)
    cls = it.attr(value, "__class__") if isinstance(value, Ref) else NONE
    nodes: list[ast.AST] = [info.node for info in it.mro(cls.key)] if isinstance(cls, Class) else []
    nodes += [it.functions[value.key].node] if isinstance(value, Func) else []
    return any("detach" in list_names(walk(node)) for node in nodes)


def _is_quiet(it: Interpreter, forward: ast.Call) -> bool:
    """Whether a model is frozen, so that a forward of data has no graph to free."""
    value = it.evaluate(forward.func)
    thing = it.thing(value) if isinstance(value, Ref) else None
    return thing is not None and thing.get("trainable") == Const("none")


def _faults(kinds: ByKind) -> list[tuple[ast.Call, _Tensor]]:
    found: list[tuple[ast.Call, _Tensor]] = []
    called = [getattr(node.func, "attr", "") for node in kinds.get(ast.Call, ())]
    lines = [node.lineno for node in kinds.get(ast.Call, ()) if getattr(node.func, "attr", "") in BACKWARDS]
    if not lines or (len(lines) < 2 and _SIGNS.isdisjoint(called)):
        return found
    for loop in (node for kind in LOOPS for node in kinds.get(kind, ())):
        if not any(loop.lineno <= line <= loop.end_lineno for line in lines):
            continue
        parts = walk(loop)
        words = {getattr(part, "attr", None) or getattr(part, "arg", None) for part in parts}
        if any(isinstance(part, LOOPS) for part in parts[1:]) or not _ANEW.isdisjoint(words):
            continue
        targets = set() if isinstance(loop, ast.While) else find_names([loop.target])
        _Flow(dict.fromkeys(targets, _DATA), found).follow(loop.body)
    return found


class _Flow:
    """One turn of a loop, statement by statement."""

    def __init__(self, names: dict[str, _Tensor], found: list[tuple[ast.Call, _Tensor]]) -> None:
        self.names, self.found = names, found
        self.freed: set[ast.Call] = set()

    def follow(self, body: Sequence[ast.stmt], *, cut: bool = False) -> None:
        """Read statements; `cut`: under torch.no_grad()."""
        for node in body:
            if isinstance(node, (ast.With, ast.AsyncWith)):
                quiet = any(_QUIETS.search(unparse(item)) for item in node.items)
                again = any("enable_grad" in unparse(item) for item in node.items)
                self.follow(node.body, cut=(cut or quiet) and not again)
            elif isinstance(node, ast.Assign):
                value = _CUT if cut else self.value(node.value)
                for target in node.targets:
                    for part in getattr(target, "elts", [target]):
                        if isinstance(part, ast.Name):
                            self.names[part.id] = value
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not cut:
                entered = getattr(node.value.func, "attr", "") == "enter_context"
                cut = entered and _QUIETS.search(unparse(node)) is not None
                self.backward(node.value)
            elif not isinstance(node, ast.Expr):
                for part in walk(node):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        self.names[part.id] = _LIVE
                    elif isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "backward":
                        self.names = dict.fromkeys(self.names, _LIVE)
                        return

    def backward(self, call: ast.Call) -> None:
        """Judge `loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)`."""
        if getattr(call.func, "attr", "") not in BACKWARDS or not isinstance(call.func, ast.Attribute):
            return
        owner = call.func.value
        if isinstance(owner, ast.Call) and getattr(owner.func, "attr", "") == "scale" and owner.args:
            owner = owner.args[0]
        elif call.args:
            owner = call.args[0]
        loss = self.value(owner)
        if loss.kind == "cut":
            self.found.append((call, loss))
        elif again := loss.roots & self.freed:
            self.found.append((call, _Tensor("live", again, loss.by)))
        self.freed |= loss.roots

    def value(self, node: ast.expr) -> _Tensor:
        """Return what is known of an expression."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, _LIVE)
        if isinstance(node, ast.Constant):
            return _DATA
        if isinstance(node, ast.BinOp):
            return _together([self.value(node.left), self.value(node.right)])
        if isinstance(node, ast.Attribute) and node.attr in ("data", "loss", "logits"):
            return _CUT if node.attr == "data" else self.value(node.value)
        if not isinstance(node, ast.Call):
            return _LIVE
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        given = [*node.args, *(word.value for word in node.keywords)]
        if isinstance(node.func, ast.Attribute) and name in _CUTS:
            return _CUT
        of_one = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") != "torch"
        if isinstance(node.func, ast.Attribute) and of_one and (name in SAME or name == "long"):
            return self.value(node.func.value)
        if name in _MAKERS or name in ("zeros_like", "ones_like", "randn_like"):
            return _CUT if name in _MAKERS else _DATA
        if _MODELS.match(unparse(node.func)):
            roots = (part for item in given for part in self.value(item).roots)
            return _Tensor("live", frozenset((node, *roots)))
        if _LOSSES.search(name):
            value = _together([self.value(item) for item in given])
            return _Tensor(value.kind, value.roots, value.by | {node})
        return _LIVE


def _together(values: list[_Tensor]) -> _Tensor:
    """Return what is made of several tensors: one that is not known may have any graph."""
    kinds = {value.kind for value in values}
    roots = frozenset(root for value in values for root in value.roots)
    kind = "live" if "live" in kinds else "cut" if "cut" in kinds else "data"
    return _Tensor(kind, roots, frozenset(call for value in values for call in value.by))
