"""Whether anything that a script names exchanges gradients between ranks, as far as its own text can show."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.unused_code import find_unused_lines, group_calls_by_name
from preflight.script.source import Source
from preflight.script.syntax_trees import ByKind, find_start, walk
from preflight.script.values import ExternalName

_EXCHANGES = re.compile(
    r"\w+DataParallel|Distributed\w*Optimizer|DDP|FSDP|fully_?shard|^i?send$|^i?recv$|^rpc|deepspeed"
    r"|^Reducer$|DistributedFused|Pipeline(?:Stage|Schedule|Parallel)|pipeline_parallel|ScheduleGPipe|Schedule1F1B|^Pipe$|DTensor"
    r"|parallelize|Zero(?!Pad|Div|Redundancy)|ZeRO|megatron|colossal|fairscale|[Aa]ccelerat|[Ff]abric|Trainer|hivemind|replicate"
    r"|all_to_all|grad(?:ient)?_sync$"
)
"""Names of what exchanges gradients or weights between ranks, or of libraries that do."""
_HANDED_ON = re.compile(
    r"^(?:async_)?(?:all_?reduce|reduce_scatter|all_?gather)|^(?:sync|average)_(?=[gpmw])"
)
"""Names of collectives; of one that is handed on it is not known what it is called with."""
_NAMED = re.compile(f"{_EXCHANGES.pattern}|{_HANDED_ON.pattern}")
OF_DDP = re.compile(r"DistributedDataParallel|DDP")
OF_OWNERS = re.compile(rf"{OF_DDP.pattern}|[Aa]ccelerat|[Ff]abric")
_COLLECTIVE = re.compile(r"reduce(?!r$)|gather|broadcast|sync_|_sync|^average_")
_FROM_ONE = re.compile(r"^broadcast_?(?:coalesced|parameters|optimizer_state|object)?$")
"""What copies the weights of one rank to the others: their gradients are lost, not exchanged."""
_OF_NO_GRADIENTS = re.compile(
    r"_object|batch_?norm|(?:^|_)no_(?:\w+_)?sync|requires_gradient_sync|sync_?bn|gather_map|gathered"
)
_OF_GRADIENTS = re.compile(r"^grads?$|(?<!\bno)(?<!zero)(?<!enable)(?<!requires)_grads?$|gradients?$")
_OF_PARAMETERS = re.compile(r"^(?:named_)?parameters$|param_groups$")
_OF_WEIGHTS = re.compile(
    r"grad|param|weight|state|model|buffer|optim|bucket|flat(?!ten$)|master|module|(?:^|_)net(?:_|$)|^p$|^g$"
)
"""Names of what a collective must have to do with to exchange gradients or weights."""
_MEASURED = re.compile(
    r"(?:^|_)(?:loss|losses|acc|accuracy|correct|total|metric|metrics|count|num|n|samples|hits|err|error|score"
    r"|time|stop|flag|signal|epoch|step|stats?|auc|f1|top\d|meter|running|val|eval|results?|perf|rewards?"
    r"|preds?|predictions|seen|intersection|union|targets?|labels?|ratios?|norms?|tokens?|ppl|perplexity"
    r"|throughput|elapsed|duration|device|mfu|psnr|ssim|dice|iou|mse|mae|rmse|bleu|wer|cer)(?:_|\d|$)"
)
"""Names of numbers that ranks put together to print them: no gradients and no weights."""


def exchanges_gradients(
    it: Interpreter, steps: Sequence[CodeLocation], *, besides: re.Pattern[str] | None = None
) -> bool:
    """Whether a script may exchange gradients or weights; imports and isinstance() alone do not.

    `steps`: where it trains; `besides`: by something that has another name than these.
    """
    own = set(_own_names(it))
    parser, files = it.sources.parser, it.sources.files()
    named = [
        (source.path, line)
        for source in files
        for name, line in parser.find_by_kind(_exchanging, source.tree)
        if not (name in own or (besides and besides.search(name)))
    ]
    unused = find_unused_lines(it)
    if any(place.line in unused.get(place.path, ()) for place in steps):
        unused = {path: set[int]() for path in unused}  # a caller that is in no file that was read uses it
    if any(line not in unused[path] for path, line in named):
        return True  # most scripts: their calls need not be looked at
    return _reduces(it, own, unused)


def reduces_gradients(it: Interpreter) -> bool:
    """Whether a script itself may put gradients or weights together, whatever else exchanges them."""
    return _reduces(it, set(_own_names(it)), find_unused_lines(it))


def _reduces(it: Interpreter, own: set[str], unused: Mapping[str, set[int]]) -> bool:
    reducers = _reducers(it, own)
    return any(_calls_exchange(it, source, reducers, unused[source.path]) for source in it.sources.files())


def _calls_exchange(it: Interpreter, source: Source, reducers: set[str], unused: set[int]) -> bool:
    """Whether a call in a file may be a collective over gradients or weights."""
    parser, tree = it.sources.parser, source.tree
    called = parser.find_by_kind(_calls, tree)
    chosen = [name for name in called if name in reducers or _COLLECTIVE.search(name)]
    ignored = parser.find_by_kind(_ignored_ids, tree) if chosen else set[int]()
    for name in chosen:
        for call in called[name]:
            if call.lineno in unused or id(call) in ignored or not _may_exchange(name, call):
                continue
            of_weights = _names_weights(call)
            if not of_weights and ("gather" in name or id(call) not in parser.find(_weight_ids, tree)):
                continue
            given = getattr(call.args[0], "id", "") if call.args else ""
            if of_weights or not given or given not in parser.find(_made_of_no_weights, tree):
                return True
    return False


def _exchanging(kinds: ByKind) -> list[tuple[str, int]]:
    """Return the names in a file that exchange gradients, with their lines."""
    nodes: list[tuple[str, ast.expr]] = [(node.id, node) for node in kinds.get(ast.Name, ())]
    nodes += [(node.attr, node) for node in kinds.get(ast.Attribute, ())]
    asked = (node for node in kinds.get(ast.Call, ()) if getattr(node.func, "id", "") == "getattr")
    nodes += [(_used_name(node), node) for node in asked]
    chosen = set(filter(_NAMED.search, {name for name, _ in nodes}))
    found = [(name, node) for name, node in nodes if name in chosen and _used_name(node)]
    ignored = _ignored_ids(kinds) if found else set[int]()
    return [(name, node.lineno) for name, node in found if id(node) not in ignored]


def _calls(kinds: ByKind) -> dict[str, list[ast.Call]]:
    """Return calls by name, those of what `getattr(owner, "name")` gives too."""
    called = group_calls_by_name(kinds)
    for node in called.pop("", ()):
        called[_used_name(node.func)].append(node)
    return called


def _used_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    if isinstance(node, ast.Attribute):
        of_torch = node.attr == "accelerator" and getattr(node.value, "id", "") == "torch"
        return "" if of_torch else node.attr
    if isinstance(node, ast.Call) and len(node.args) > 1 and getattr(node.func, "id", "") == "getattr":
        text = getattr(node.args[1], "value", "")
        return text if isinstance(text, str) else ""
    return ""


def _own_names(it: Interpreter) -> Iterator[str]:
    """Yield names of functions and classes that are read themselves; a class of a library's is none."""
    for info in it.functions.values():
        yield getattr(info.node, "name", "")
    for cls in it.classes.values():
        bases = {base.name for base in cls.bases if isinstance(base, ExternalName)}
        if not any(map(_EXCHANGES.search, bases)):
            yield cls.node.name


def _reducers(it: Interpreter, own: set[str]) -> set[str]:
    """Return the names of functions of the script that put together what they are given."""
    through: dict[str, set[str]] = {}  # those that hand on what they are given, with what to
    for source in it.sources.files():
        for name, called in it.sources.parser.find_by_kind(_handing_on, source.tree):
            if name in own:
                through.setdefault(name, set()).add(called)
    found = {name for name, called in through.items() if called - own}
    while more := {name for name, called in through.items() if called & found} - found:
        found |= more
    return found


def _handing_on(kinds: ByKind) -> list[tuple[str, str]]:
    """Return the functions that reduce what they are given, each with what it hands that on to."""
    called = _calls(kinds)
    calls = [(node, name) for name in called if "reduce" in name for node in called[name] if node.args]
    return [
        (node.name, name)
        for kind in ((ast.FunctionDef, ast.AsyncFunctionDef) if calls else ())
        for node in kinds.get(kind, ())
        if node.name != "backward"
        for given in ({each.arg for each in node.args.args},)
        for call, name in calls
        if node.lineno <= call.lineno <= (node.end_lineno or 0) and getattr(call.args[0], "id", "") in given
    ]


def _ignored_ids(kinds: ByKind) -> set[int]:
    """Return the parts of annotations and of isinstance(), and collectives, which are judged as calls.

    Those of an autograd.Function, too: what its backward() exchanges are gradients of features.
    """
    called = _calls(kinds)
    ignored = {id(node.func) for name in called if _COLLECTIVE.search(name) for node in called[name]}
    asked = [node for name in ("isinstance", "issubclass") for node in called.get(name, ())]
    parts = [part for node in asked if isinstance(node.func, ast.Name) for part in node.args[1:]]
    parts += [node.annotation for kind in (ast.arg, ast.AnnAssign) for node in kinds.get(kind, ())]
    functions = (node for kind in (ast.FunctionDef, ast.AsyncFunctionDef) for node in kinds.get(kind, ()))
    parts += [node.returns for node in functions]
    classes = kinds.get(ast.ClassDef, ())
    parts += [node for node in classes if any(_used_name(base) == "Function" for base in node.bases)]
    ignored.update(id(inner) for part in parts if part is not None for inner in walk(part))
    return ignored


def _weight_ids(nodes: Iterable[ast.AST]) -> set[int]:
    """Return the parts of functions that name gradients or parameters, and of the module outside of them."""
    outside = set(map(id, nodes))
    inside: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts = walk(node)
            outside.difference_update(map(id, parts))
            if any(map(_is_of_gradients, parts)):
                inside.update(map(id, parts))
    return inside | outside


def _is_of_gradients(node: ast.AST) -> bool:
    if isinstance(node, (ast.For, ast.comprehension)):
        return any(_OF_PARAMETERS.search(_used_name(part)) for part in walk(node.iter))
    return _OF_GRADIENTS.search(_used_name(node)) is not None


def _made_of_no_weights(nodes: Sequence[ast.AST]) -> set[str]:
    """Return names that a file gives only what is made of no weights: `kl = (old - new).mean()`."""
    stores = [pair for node in nodes if (pair := _stored(node)) is not None]
    weights: set[str] = set()
    made = {name for names, _ in stores for name in names}
    for names, value in stores:
        parts = walk(value)
        # model(x) has none
        called = {id(find_start(part.func)) for part in parts if isinstance(part, ast.Call)}
        parts = [part for part in parts if id(part) not in called]
        if any(_OF_WEIGHTS.search(_used_name(part)) or _is_of_gradients(part) for part in parts):
            weights |= names
    while more := {
        name for names, value in stores for name in names - weights if _bare_names(value) & weights
    }:
        weights |= more
    return made - weights


def _stored(node: ast.AST) -> tuple[set[str], ast.expr] | None:
    """Return the names that a statement or a comprehension gives something, and what."""
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.NamedExpr)):
        targets, value = getattr(node, "targets", None) or [getattr(node, "target", node)], node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        targets, value = [node.target], node.iter
    else:
        return None
    return {part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)}, value


def _bare_names(value: ast.expr) -> set[str]:
    """Return the names in an expression but those of which it takes an attribute alone: `args.seed`."""
    parts = walk(value)
    owners = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
    return {part.id for part in parts if isinstance(part, ast.Name) and id(part) not in owners}


def _names_weights(call: ast.Call) -> bool:
    given = (*call.args, *(word.value for word in call.keywords))
    return any(_OF_WEIGHTS.search(_used_name(part)) for value in given for part in walk(value))


def _may_exchange(name: str, call: ast.Call) -> bool:
    """Whether a call of a collective may be over gradients or weights, not over what is measured."""
    if _OF_NO_GRADIENTS.search(name) or _FROM_ONE.match(name):
        return False
    first = call.args[0] if call.args else next((word.value for word in call.keywords), None)
    owner = getattr(call.func, "value", None)
    if first is None or isinstance(first, ast.Constant) or getattr(owner, "id", "") in ("torch", "functools"):
        return False  # tensor.gather(1, index), torch.gather(...)
    return not any(name and _MEASURED.search(name) for name in map(_used_name, walk(first)))
