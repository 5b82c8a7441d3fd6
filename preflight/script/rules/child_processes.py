"""Scripts whose one process has the GPUs that it numbers: started again for each, or spread over several."""

from preflight import regex as re
from preflight.script.interpreter.interpreter import Interpreter

_GIVES_ONE_GPU = re.compile(
    r"\benv\w* *= *[^\n]*CUDA_VISIBLE_DEVICES|\benv\w*\[.CUDA_VISIBLE_DEVICES.\] *="
    r"|[\"']CUDA_VISIBLE_DEVICES[\"'] *:"
)
_STARTS = re.compile(r"(?:Popen|run|check_call|call)\([^\n]*(?:cmd|command|__file__|argv)")
_NAMES_ITSELF = re.compile(r"__file__|sys\.argv\[0\]")


def _starts_itself_with_one_gpu(it: Interpreter) -> bool:
    """Whether a script starts itself again, and shows each child one GPU, which is number 0 to it."""
    return all(map(it.sources.mention, (_GIVES_ONE_GPU, _STARTS, _NAMES_ITSELF)))


_OF_RANKS = re.compile(
    r"torch\.distributed|DistributedDataParallel|\bDDP\b|Accelerator|Trainer|RANK\b|WORLD_SIZE|(?i:deepspeed|horovod"
    r"|lightning|fabric|torchrun|(?:local_?|get_)rank)"
)
_IMPORTS = re.compile(r"(?m)^(?:import|from) .*")
_REFUSES_RANKS = re.compile(
    r"if [^\n]*(?:WORLD_SIZE|world_size)[^\n]* (?:> 1|!= 1|>= 2):\n\s*(?:raise |sys\.exit|exit\()"
    r"|assert [^\n]*(?:WORLD_SIZE|world_size)[^\n]* == 1\b"
)
_NUMBERED = re.compile(r"[\"']cuda:(\d)[\"']|\.cuda\((\d)\)|device\([\"']cuda[\"'], *(\d)\)")


def has_numbered_gpus(it: Interpreter) -> bool:
    """Whether the numbers of GPUs in a script are those of one process, whatever rank it is."""
    if _starts_itself_with_one_gpu(it):
        return True
    if it.target.processes is not None:
        return False
    make = it.sources.parser.make
    texts = [source.text for source in it.sources.files()]
    numbers = set[str]().union(*(make(_list_numbers, text) for text in texts))
    alone = any(make(_REFUSES_RANKS.search, text) for text in texts)
    return len(numbers) > 1 and (alone or not any(make(_names_ranks, text) for text in texts))


def _list_numbers(text: str) -> set[str]:
    return {"".join(groups) for groups in _NUMBERED.findall(text)}


def _names_ranks(text: str) -> bool:
    return _OF_RANKS.search(_IMPORTS.sub("", text)) is not None
