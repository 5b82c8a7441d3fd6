"""Whether anything that a script names exchanges gradients between ranks, as far as its own text can show."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from preflight.script.interpreter.values import ExternalName
from preflight.script.source import names_in, walk

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter

_EXCHANGES = re.compile(
    r"DataParallel|Distributed\w*Optimizer|DDP|FSDP|fully_?shard|^i?send$|^i?recv|^rpc|horovod|hvd|deepspeed"
    r"|apex|[Pp]ipeline|^Pipe$|DTensor|parallelize|Zero|ZeRO|megatron|colossal|fairscale|accelerat|[Ff]abric"
    r"|Trainer|hivemind|replicate|all_to_all|average_"
)
"""Names of what exchanges gradients or weights between ranks, or of libraries that do."""
_COLLECTIVE = re.compile(r"reduce(?!r$)|gather|broadcast|sync_|_sync")
_FROM_ONE = re.compile(r"^broadcast(?:_coalesced)?$")
"""What copies the weights of one rank to the others: their gradients are lost, not exchanged."""
_NAMED = re.compile(f"{_EXCHANGES.pattern}|{_COLLECTIVE.pattern}")
_OF_NO_GRADIENTS = re.compile(r"_object|batch_?norm|^no_sync$")
_MEASURED = re.compile(
    r"(?:^|_)(?:loss|losses|acc|accuracy|correct|total|metric|metrics|count|num|n|samples|hits|err|error|score"
    r"|time|stop|flag|signal|epoch|step|stats?|auc|f1|top\d|meter|running|val|eval|results?|perf|rewards?"
    r"|preds?|predictions|seen)(?:_|\d|$)"
)
"""Names of numbers that ranks put together to print them: no gradients and no weights."""


def exchanges_gradients(it: "Interpreter") -> bool:
    """Whether a script may exchange gradients or weights; imports and isinstance() alone do not."""
    own = set(_own_names(it))
    files = [it.sources.parser.nodes(source.tree) for source in it.sources.files()]
    used = {name for nodes in files for name in names_in(nodes)}
    for nodes in files:
        ignored = {*_ignored_ids(nodes), *_unused_ids(nodes, used)}
        for node in nodes:
            name = _used_name(node)
            if name and name not in own and id(node) not in ignored and _NAMED.search(name):
                return True  # of a collective that is handed on it is not known what it is called with
            if isinstance(node, ast.Call) and id(node) not in ignored and _may_exchange(node, own):
                return True
    return False


def _used_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    if isinstance(node, ast.Attribute):
        of_torch = node.attr == "accelerator" and getattr(node.value, "id", "") == "torch"
        return "" if of_torch else node.attr
    return ""


def _own_names(it: "Interpreter") -> Iterator[str]:
    """Yield names of functions and classes that are read themselves; a class of a library's is none."""
    for info in it.functions.values():
        yield getattr(info.node, "name", "")
    for cls in it.classes.values():
        bases = {base.name for base in cls.bases if isinstance(base, ExternalName)}
        if not any(map(_EXCHANGES.search, bases)):
            yield cls.node.name


def _ignored_ids(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the parts of annotations and of isinstance(), and collectives, which are judged as calls."""
    for node in nodes:
        if isinstance(node, ast.Call):
            yield id(node.func) if _COLLECTIVE.search(_used_name(node.func)) else 0
            if getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                yield from (id(part) for argument in node.args[1:] for part in walk(argument))
        for word in ("annotation", "returns"):
            part = getattr(node, word, None)
            yield from (id(inner) for inner in walk(part)) if isinstance(part, ast.AST) else ()


def _unused_ids(nodes: Sequence[ast.AST], used: set[str]) -> Iterator[int]:
    """Yield the parts of functions that nothing names: what they would exchange is not exchanged.

    Methods are called by libraries, too: `forward`, a hook of a trainer.
    """
    methods = {id(each) for node in nodes if isinstance(node, ast.ClassDef) for each in node.body}
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and id(node) not in methods:
            yield from map(id, walk(node)) if node.name not in used and node.name != "main" else ()


def _may_exchange(call: ast.Call, own: set[str]) -> bool:
    """Whether a call may be a collective over gradients or weights."""
    name = _used_name(call.func)
    if name in own or not _COLLECTIVE.search(name) or _OF_NO_GRADIENTS.search(name) or _FROM_ONE.match(name):
        return False
    first = call.args[0] if call.args else next((word.value for word in call.keywords), None)
    owner = getattr(call.func, "value", None)
    if first is None or isinstance(first, ast.Constant) or getattr(owner, "id", "") in ("torch", "functools"):
        return False  # tensor.gather(1, index), torch.gather(...)
    names = [_used_name(part) for part in walk(first)]
    return not any(name and _MEASURED.search(name) for name in names)
