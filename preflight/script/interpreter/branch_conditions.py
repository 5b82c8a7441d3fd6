"""What a condition says of where its branch runs: on rank 0 only, in one process only, without a GPU."""

import ast
from collections.abc import Sequence

from preflight import regex as re
from preflight.script.syntax_trees import unparse, walk

RANK_0 = "rank 0"
OTHER_RANKS = "all ranks but 0"
BY_RANK = "by rank"  # of a condition that asks something of the rank, or a name for its answer
ONE_PROCESS = "one process"
CPU = "cpu"
MAYBE = "unknown condition"
FINALLY = "finally"
ONE_RANK = "beside the branch of several ranks"
UNCALLED = "uncalled"
UNREACHED = "unreached "  # with the name after it: what a reading that came upon no training reads besides
SPAWNED = "spawned"  # of what runs in processes that the script starts
SPAWNED_RANK = "spawned with a rank"  # of what runs in each process that is given its rank
OF_SOME = frozenset({RANK_0, OTHER_RANKS, BY_RANK, ONE_PROCESS, ONE_RANK, CPU})  # not of all ranks
WITHOUT = "without "  # and the flag: the branch of a default, where the other has several ranks

_VARIABLE = r"(?:int\()?os\.(?:environ\.get\(|getenv\(|environ\[)'(?:LOCAL_)?RANK'(?:, [\w'-]+)?[\])]\)?"
_RANK = (
    r"(?:(?:\w+\.)*(?:(?:global|local|node|world|dist|proc|ddp)?_?rank"
    rf"|get_rank\(\)|process_index|process_id)|{_VARIABLE})"
)
_COUNT = (
    r"(?:\w+\.)*(?:device_count(?:\(\))?|get_world_size\(\)|world_size|num_processes"
    r"|n_?gpus?|num_gpus|gpu_count|ngpus\w*|n_?procs?|num_procs?|n_?devices|num_devices)"
)
COUNT = re.compile(r"gpus|procs?$|num_?gpu|processes|world_?size|n_?nodes|num_nodes")
"""Of options that say the number of ranks: with more than one, the branch of several is taken."""
_OF_ACCELERATE = r"(?:\w+\.)*distributed_type"
_NO, _MULTI = (rf"(?:'{word}'|(?:\w+\.)*DistributedType\.{word})" for word in ("NO", "MULTI_GPU"))
_FIRST_WORD = (
    r"(?:\w+\.)*(?:is_(?:local_)?main(?:_process)?|is_world_process_zero(?:\(\))?|is_global_zero"
    r"|is_master(?:_process)?|main_process|master_process|is_rank_?(?:0|zero)|args\.should_save)(?:\([\w.]*\))?"
)
_FIRST = re.compile(
    rf"{_RANK} (?:==|<=) '?0'?|{_RANK} in [\[(](?:-1, 0|0, -1)[\])]|not {_RANK}|{_FIRST_WORD}", re.IGNORECASE
)
_ASKS_RANK = re.compile(
    r"rank|master|is_main|main_process|main_proc|is_chief|is_primary|is_first|coordinator|is_root|is_lead"
    r"|process_index|proc_id|global_zero|procid|localid"
)
_OTHERS = re.compile(
    rf"{_RANK} (?:!=|>) '?0'?|{_RANK} >= 1|(?:\w+\.)*get_rank\(\)"
    r"|(?:self\.)?(?:(?:global|world|dist|ddp)_)?rank|(?:\w+\.)*process_index"
    rf"|{_RANK} not in [\[(](?:-1, 0|0, -1)[\])]|not {_FIRST_WORD}",
    re.IGNORECASE,
)
_ONE = re.compile(rf"{_COUNT} (?:==|<=) [01]|{_COUNT} < [12]|{_OF_ACCELERATE} == {_NO}", re.IGNORECASE)
_SEVERAL = re.compile(
    rf"{_COUNT} (?:!=|>) 1|{_COUNT} >= 2|{_OF_ACCELERATE} (?:!= {_NO}|== {_MULTI})", re.IGNORECASE
)
_NO_CUDA = re.compile(r"not torch\.cuda\.is_available\(\)|torch\.cuda\.device_count\(\) == 0")
_OF_PLACES = re.compile(
    r"rank|main|master|process|zero|count|world|gpu|proc|distributed_type|cuda|should_save"
)
"""Names without which a condition is of none of these forms: most need not be written out as text."""
_NAMES = "gpulaunch_names"  # where a condition keeps the names in it


_OF_RANKS = frozenset(
    {
        *("DistributedDataParallel", "DDP", "FSDP", "FullyShardedDataParallel", "init_process_group"),
        *("set_device", "init_distributed", "init_distributed_mode", "setup_distributed", "init_dist"),
        *("setup_ddp", "ddp_setup", "init_ddp", "LOCAL_RANK", "WORLD_SIZE"),
        *("spawn", "horovod", "hvd", "deepspeed"),
    }
)
_OWN_RANK = frozenset({"local_rank", "get_rank", "barrier", "all_reduce"})
"""Names that a branch has to do with a rank by, where its condition asks for several."""
_OF_SWITCHES = re.compile(r"ddp|fsdp|distributed|deepspeed|multi_?(?:gpu|proc|node)|data_?parallel")
_NAMES_RANKS = re.compile("|".join(sorted(_OF_RANKS)))
_RANKS_OPTION = re.compile(r"dist|ddp|multi|parallel|apex|local.?rank|world|horovod|fsdp|deepspeed")


_OF_INTEREST = re.compile(
    r"cuda|gpu|device|half|fp16|bf16|float|dtype|precision|(?<![a-z])amp(?![a-z])|autocast|scal(?!ar)|clip_"
    r"|rank|dist(?!anc|ort|inct)|spawn|parallel|ddp|fsdp|environ|master|backward|step\(|from_pretrained|peft"
    r"|lora|trainer|quant|\d_?bit|bitsandbytes|checkpointing|prepare|optim|freeze|requires_grad|flash|attn|accumulate_grad"
    r"|(?<![a-z])ema(?![a-z])|true|false|\bmodel\w* = "
)


def may_matter(lines: Sequence[str]) -> bool:
    """Whether a branch may have to do with models, GPUs or ranks: others only log, or change data."""
    return bool(_OF_INTEREST.search("\n".join(lines).lower()))  # a third of what ignoring the case takes


def is_of_ranks(body: list[ast.stmt], flag: str, lines: Sequence[str]) -> bool:
    """Whether a branch that an option opens is the one of several ranks; `lines` are those of its file."""
    if _RANKS_OPTION.search(flag):
        return True
    text = "\n".join(lines[body[0].lineno - 1 : body[-1].end_lineno]) if body else ""
    if not _NAMES_RANKS.search(text):
        return False  # most: no need to look at each name in it
    return any(_named(node) in _OF_RANKS for statement in body for node in walk(statement))


def _names_own_rank(body: list[ast.stmt]) -> bool:
    return any(_named(node) in _OWN_RANK for statement in body for node in walk(statement))


def _named(node: ast.AST) -> str:
    """Return the name that a node has, or that it reads of os.environ."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        key: ast.AST | None = node.slice
    else:
        key = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if isinstance(key, ast.Constant):
        return str(key.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def find_branch_places(test: ast.expr) -> tuple[str, str]:
    """Return where the body and the `else` of a condition run: one of the names above, or "" for everywhere.

    Only whole conditions count, and parts: where `a and b` holds both do, where `a or b` does not neither.
    """
    if not _OF_PLACES.search(_names(test)):
        return "", ""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    places = [_places(unparse(part)) for part in parts]
    one, other = (next((item for item in items if item), "") for items in zip(*places, strict=True))
    if len(parts) == 1:
        return one, other
    return (one, "") if isinstance(getattr(test, "op", None), ast.And) else ("", other)


def mark_rank_places(test: ast.expr, places: tuple[str, str]) -> tuple[str, str]:
    """Return where the branches of a condition run, with what may depend on the rank."""
    if all(places) or not asks_rank(test):
        return places
    return places[0] or BY_RANK, places[1] or BY_RANK


def asks_rank(test: ast.expr) -> bool:
    """Whether a condition may depend on the rank, by the names in it."""
    return _ASKS_RANK.search(_names(test)) is not None


def _names(test: ast.expr) -> str:
    """Return the names in a condition, in lower case."""
    of_node = test.__dict__
    if _NAMES not in of_node:
        of_node[_NAMES] = " ".join(map(_named, walk(test))).lower()
    names: str = of_node[_NAMES]
    return names


def find_if_places(node: ast.If, lines: Sequence[str]) -> tuple[str, str]:
    """Return where the body and the `else` run: beside the branch of several ranks is that of one."""
    body, other = find_branch_places(node.test)
    asks_ranks = _OF_SWITCHES.search(_names(node.test)) is not None
    of_ranks = tuple(
        is_of_ranks(branch, "", lines) or (asks_ranks and _names_own_rank(branch))
        for branch in (node.body, node.orelse)
    )
    if of_ranks == (True, False) and not body:
        other = other or ONE_RANK
    elif of_ranks == (False, True) and not other:
        body = body or ONE_RANK
    return mark_rank_places(node.test, (body, other))


def _places(text: str) -> tuple[str, str]:
    for pattern, places in (
        (_OTHERS, (OTHER_RANKS, RANK_0)),
        (_FIRST, (RANK_0, OTHER_RANKS)),
        (_NO_CUDA, (CPU, "")),
        (_ONE, (ONE_PROCESS, "")),
        (_SEVERAL, ("", ONE_PROCESS)),
    ):
        if pattern.fullmatch(text):
            return places
    return "", ""
