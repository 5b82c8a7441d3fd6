"""Scripts that start themselves again, one process for each GPU, each a training of its own."""

from preflight import regex as re
from preflight.script.interpreter.interpreter import Interpreter

_GIVES_ONE_GPU = re.compile(
    r"\benv\w* *= *[^\n]*CUDA_VISIBLE_DEVICES|\benv\w*\[.CUDA_VISIBLE_DEVICES.\] *="
    r"|[\"']CUDA_VISIBLE_DEVICES[\"'] *:"
)
_STARTS = re.compile(r"(?:Popen|run|check_call|call)\([^\n]*(?:cmd|command|__file__|argv)")
_NAMES_ITSELF = re.compile(r"__file__|sys\.argv\[0\]")


def starts_itself_with_one_gpu(it: Interpreter) -> bool:
    """Whether a script starts itself again, and shows each child one GPU, which is number 0 to it."""
    return all(map(it.sources.mention, (_GIVES_ONE_GPU, _STARTS, _NAMES_ITSELF)))
