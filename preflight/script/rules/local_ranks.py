"""Rule R413: the rank in a node taken for the rank in the launch, or the reverse."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import ONE_PROCESS, ONE_RANK, UNCALLED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Const, RankValue, Seq, Value
from preflight.script.values.constants import NONE, OF_LAUNCH, OF_NODE
from preflight.script.values.operations import place_of

_OF_A_NODE = re.compile(  # and does not ask first for the number of all
    r"(?is)(?!.*(?<!local_)world_size).*(?:device_count|local_world_size|get_local_size)"
)
_NODES = re.compile(
    r"\b(?:LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|NNODES|SLURM_\w*NODE\w*|GROUP_RANK|nnodes|node_rank)\b"
)
"""What a file names that has to do with several nodes."""
_SAYS_NODES = re.compile(
    r"(?i)multi-?node|multiple nodes|several nodes|number of nodes|--nnodes\b(?![ =]1\b)"
)
_SAYS_ONE = re.compile(r"(?i)single[- ]node|one node|\bno multi-?node|not multi-?node")
_ONE_NODE = re.compile(r"node", re.IGNORECASE)
_ASSERTS_ONE = re.compile(r"assert\b[^\n]*(?i:LOCAL_WORLD_SIZE|num_nodes|nnodes)")


@rule("R413", "process group", "sampler", "part of data", "set device", "device", "ddp")
def rank_of_a_node_for_that_of_the_launch(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The rank in a node (LOCAL_RANK) is taken for the rank in the launch (RANK), or the reverse.

    On one node both are the same. With a second one, two ranks name themselves 0 to the process group, which
    never meets; a sampler gives the ranks of each node the same parts, and no rank the rest; a rank of the
    launch as the number of a GPU is one that the second node does not have, "invalid device ordinal".
    Source: torchrun's environment variables; torch/utils/data/distributed.py, which refuses rank >=
    num_replicas; reproduced with torch 2.13.
    """
    one_node = it.target.nodes == 1 or it.target.processes == 1 or it.target.spawns
    if one_node or not {ONE_PROCESS, ONE_RANK, UNCALLED}.isdisjoint(it.contexts):
        return
    if any(_ONE_NODE.search(unparse(test)) for test in it.tests):
        return
    level = Level.ERROR if (it.target.nodes or 1) > 1 else Level.WARNING
    if level is Level.WARNING and it.sources.mention(_ASSERTS_ONE):
        return
    if event.name in ("set device", "device", "ddp"):
        if event.call is not None and any(_is_of(each, OF_LAUNCH) for each in _numbers(it, event)):
            known = level is Level.ERROR or it.sources.is_in_code(_NODES, it.source)
            known = known or it.sources.parser.make(_says_nodes, it.source.text)
            message = "the rank in the launch is the number of a GPU, which a second node does not have"
            fix = 'int(os.environ["LOCAL_RANK"]) in place of this rank'
            yield RuleHit(event.place, message, fix, level if known else Level.INFO)
        return
    call, words = event.call, _WORDS.get(event.name)
    if call is None or words is None or call.open:
        return
    rank, size = call.get(*words[0]) or NONE, call.get(*words[1]) or NONE
    of_node = _is_of_a_node(it, _written(call.node, *words[1]))
    if _is_of(rank, OF_NODE) and not of_node and (size == NONE or _is_world(it, size)):
        message = (
            "the rank in the node, where that in the launch is meant: on two nodes two ranks have each number"
        )
        yield RuleHit(call.get_place("rank"), message, f"{_FIXES[event.name]}, or rank={_RANK}", level)
    elif _is_of(rank, OF_LAUNCH) and of_node:
        message = f"{words[1][0]}= counts the ranks of one node, and the second node's ranks are not below it"
        yield RuleHit(call.get_place(words[1][0]), message, f"{words[1][0]}=dist.get_world_size()", level)


def _says_nodes(text: str) -> bool:
    """Whether a script says, in comments too, that it runs on several nodes."""
    return _SAYS_NODES.search(text) is not None and _SAYS_ONE.search(text) is None


_RANK = 'int(os.environ["RANK"])'
_WORDS = {
    "process group": (("rank", 4), ("world_size", 3)),
    "sampler": (("rank", 2), ("num_replicas", 1)),
    "part of data": (("rank", 1), ("world_size", 2)),
}
_FIXES = {"process group": "leave rank= and world_size= out", "sampler": "leave rank= out"}
_FIXES["part of data"] = "rank=dist.get_rank()"


def _is_of(value: Value, where: str) -> bool:
    return isinstance(value, RankValue) and value.of == where


def _is_world(it: Interpreter, size: Value) -> bool:
    """Whether a number is that of the ranks in the launch, or an option's, none that is written."""
    if place_of(size) in it.options.places:
        return it.target.args is None
    return size in (Const(it.target.world), Const(str(it.target.world))) and place_of(size) is None


def _written(call: ast.Call, word: str, position: int) -> ast.expr | None:
    """Return how an argument is written."""
    named = (each.value for each in call.keywords if each.arg == word)
    return next(named, call.args[position] if position < len(call.args) else None)


def _is_of_a_node(it: Interpreter, node: ast.expr | None) -> bool:
    """Whether an expression counts the GPUs or ranks of one node, or a name that has this alone."""
    if isinstance(node, ast.Name):
        stores = [each for each in it.list_nodes(ast.Assign) if node.id in map(unparse, each.targets)]
        node = stores[0].value if len(stores) == 1 else None
    if node is None or not _OF_A_NODE.match(unparse(node)):
        return False
    return not any(isinstance(part, ast.BinOp) for part in walk(node))  # as by the number of nodes


def _numbers(it: Interpreter, event: ScriptEvent) -> list[Value]:
    """Return what may be the numbers of the GPUs that a call names: 1, "cuda", 1 and f"cuda:{1}"."""
    call, ids = event.call, event.values.get("ids")
    if call is None or event.name == "ddp":
        return list(ids.items) if isinstance(ids, Seq) else []
    texts = (part for part in call.node.args if isinstance(part, ast.JoinedStr))
    parts = [part for text in texts for part in text.values if isinstance(part, ast.FormattedValue)]
    return [*call.args, *call.kwargs.values(), *(it.evaluate(part.value) for part in parts)]
