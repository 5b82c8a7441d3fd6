"""Rules D209 and D210: tensors that move nowhere, or are on the CPU where NCCL moves them."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import ON_CPU, ExternalName
from preflight.script.rules.graph_syntax import find_names, is_of_data
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind

_FIRST = frozenset(
    {"all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather_into_tensor", "all_gather_single"}
)
_ELSEWHERE = re.compile(
    r"set_default_(?:device|tensor_type)|\bwith +(?:torch\.)?device\b|DeviceContext|\.data *= "
)


@dataclass(frozen=True, slots=True)
class _Backend:
    """Note of where a process group is made with a backend, "" for none by name."""

    name: str


@rule("D210", "process group", "collective")
def on_the_cpu_for_nccl(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A tensor on the CPU goes to a collective of NCCL.

    NCCL moves memory of GPUs only: "No backend type associated with device type cpu".
    Source: torch.distributed's table of backends.
    """
    call = event.call
    if event.name == "process group":
        it.note(_Backend(event.what), event.place)
        return
    if call is None or it.target.capability is None:
        return
    sent = call.get("tensor", 0) if event.what in _FIRST else call.get("tensor", 1)
    if sent is not ON_CPU:
        return
    func = it.evaluate(call.node.func)
    of_torch = isinstance(func, ExternalName) and func.name.startswith("torch.distributed.")
    backends = {key.name for key in it.notes if isinstance(key, _Backend)}
    if of_torch and backends == {"nccl"} and not it.tests and not it.sources.mention(_ELSEWHERE):
        message = "this tensor is on the CPU, and NCCL moves memory of GPUs only"
        fix = 'make it with device="cuda", or on the rank\'s device'
        yield RuleHit(event.place, message, fix, Level.ERROR)


_NO_TENSOR = re.compile(
    r"(?i)model|module|net|layer|block|param|optim|state|graph|^(?:data|batch|g|item|inputs?_?dict)$"
)
_MOVES_IN_PLACE = re.compile(r"torch_geometric|BatchEncoding|\bdgl\b|\.generate\(\*\*")


@rule("D209", "cuda")
def moved_nowhere(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """What `x.to(device)` or `x.cuda()` of a tensor returns is thrown away.

    A tensor stays where it is; only a module moves in place. The next line fails: "Expected all tensors to be
    on the same device".
    Source: torch's documentation of Tensor.to.
    """
    call = event.call
    if event.what != "tensor" or call is None or not isinstance(call.node.func, ast.Attribute):
        return
    before = it.source.lines[call.node.lineno - 1].encode()[: call.node.col_offset].rstrip(b" \t(")
    if before and before[-1:] not in (b":", b";"):
        return  # within a statement, as most: something takes it
    names, dropped = it.sources.parser.find_by_kind(_dropped, it.scope)
    owner = call.node.func.value
    found = id(call.node) in dropped and isinstance(owner, ast.Name) and owner.id in names
    if found and not it.sources.mention(_MOVES_IN_PLACE):
        fix = f"{ast.unparse(owner)} = {ast.unparse(call.node)}"
        yield RuleHit(event.place, "this moves nothing: it returns another tensor", fix, Level.ERROR)


def _dropped(kinds: ByKind) -> tuple[set[str], set[int]]:
    """Return the names of tensors of batches, and the calls whose results nothing takes."""
    names: set[str] = set()
    calls = {id(node.value) for node in kinds.get(ast.Expr, ()) if isinstance(node.value, ast.Call)}
    for node in (*kinds.get(ast.For, ()), *kinds.get(ast.AsyncFor, ())):
        if is_of_data(node.iter):
            names |= {name for part in getattr(node.target, "elts", ()) for name in find_names([part])}
    for node in kinds.get(ast.Assign, ()):
        if isinstance(node.targets[0], ast.Tuple) and re.search(
            r"^\w*(?:batch|data)$|^next\(", ast.unparse(node.value)
        ):
            names |= find_names(node.targets)
    names -= {
        name for node in kinds.get(ast.keyword, ()) if node.arg is None for name in find_names([node.value])
    }
    return {name for name in names if not _NO_TENSOR.search(name)}, calls
