"""Whether code that was not read, of a library or a missing module, may wrap a model for several ranks."""

import ast
from collections.abc import Iterable, Iterator

from preflight import regex as re
from preflight.script.source import Source, Sources
from preflight.script.syntax_trees import walk

_TRAINED = re.compile(
    r"model|(?:^|_)net(?:work|_|$)|optim|param|grads?(?:_|$)|student|teacher|generator|discriminator|critic"
    r"|encoder|decoder|backbone|(?:^|_)(?:module|policy|actor|agent|learner|unet|head)(?:_|$)",
    re.IGNORECASE,
)
"""Names of what is trained; a library that is given none of them wraps nothing."""
_LOOKS_AT = re.compile(
    r"ema|average|watch|add_graph|summary|flop|count|complexity|profile|log|print|save|load|init|freeze"
    r"|clip|norm|scheduler|schedule|warmup|eval|test|metric|plot|visual",
    re.IGNORECASE,
)
"""Names of what a model is given to without being trained by it."""
_WRAP_NOTHING = frozenset(
    {"timm", "apex", "horovod", "torch_optimizer", "warmup_scheduler", "lpips", "clip", "open_clip"}
)
"""Libraries that set devices or make models, and that exchange no gradients but by names that are known."""
_TRAINS = re.compile(r"Trainer|Runner|Engine|Learner|Solver|Strategy")


def may_wrap_unread(sources: Sources) -> bool:
    """Whether something that was not read is given, makes or trains a model, in any file of a script."""
    for source in sources.files():
        unread = {each for each in sources.list_unread_imports(source) if _root(each) not in _WRAP_NOTHING}
        names = set(_bound_names(sources.parser.nodes(source.tree), unread)) if unread else set()
        if names and ("*" in names or _is_wrapped(source, sources, names)):
            return True
    return False


def _root(imported: tuple[str, int]) -> str:
    name, level = imported
    return "" if level else name.partition(".")[0]


def _bound_names(nodes: Iterable[ast.AST], unread: set[tuple[str, int]]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.name, 0) in unread:
                    yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and (node.module or "", node.level) in unread:
            yield from (alias.asname or alias.name for alias in node.names)


def _is_wrapped(source: Source, sources: Sources, names: set[str]) -> bool:
    every = sources.parser.nodes(source.tree)
    layers = set(_layer_ids(every))
    nodes = [node for node in every if id(node) not in layers]
    for node in nodes:  # what it makes may wrap a model later: engine = Engine(...); engine.prepare(model)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = _parts(node.value.func)
            if called and called[0] in names:
                targets = [part for target in node.targets for part in _parts(target)[-1:]]
                if any(map(_TRAINED.search, targets)) and not called[-1][:1].isupper():
                    return True
                names = names | {target for target in targets if target != "self"}
    for node in nodes:
        if isinstance(node, ast.ClassDef) and any(_is_trainer(base, names) for base in node.bases):
            return True
        if isinstance(node, ast.Call) and _is_given_a_model(node, names):
            return True
    return False


def _layer_ids(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the parts of classes that have a forward(): what a library makes in them are layers."""
    for node in nodes:
        if isinstance(node, ast.ClassDef) and any(
            getattr(part, "name", "") == "forward" for part in node.body
        ):
            yield from map(id, walk(node))


def _is_trainer(base: ast.expr, names: set[str]) -> bool:
    parts = _parts(base)
    return bool(parts and parts[0] in names and _TRAINS.search(parts[-1]))


def _is_given_a_model(call: ast.Call, names: set[str]) -> bool:
    called = _parts(call.func)
    if not names.intersection(called) or _LOOKS_AT.search(called[-1]):
        return False
    given = (*call.args, *(word.value for word in call.keywords))
    return any(_TRAINED.search(part) for value in given for node in walk(value) for part in _parts(node))


def _parts(node: ast.AST) -> list[str]:
    """Return the names of `a.b.c`, in their order; none of other code."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []
