"""Horovod: ranks of MPI or of its own launcher, which exchange gradients in the optimizer's step."""

from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.interpreter.values import NONE, UNKNOWN, Const, RankValue, Value
from preflight.script.libraries.collectives import model_call


def _init(it: Interpreter, call: Call) -> Value:
    """hvd.init(): the ranks have a group from then on, and no device of their own."""
    it.state.grouped = True
    it.emit(call.event("process group"))
    return NONE


def _optimizer(it: Interpreter, call: Call) -> Value:
    """hvd.DistributedOptimizer(optimizer): its step() takes the gradients of all ranks."""
    it.state.wrapped = True
    return call.get("optimizer", 0) or UNKNOWN


_COLLECTIVES = (
    *("allreduce", "allreduce_", "allgather", "broadcast", "broadcast_", "alltoall", "reducescatter"),
    *("broadcast_parameters", "broadcast_optimizer_state", "broadcast_object", "allgather_object", "barrier"),
)

CALLS: dict[str, CallModel] = {
    "horovod.torch.init": _init,
    "horovod.torch.DistributedOptimizer": _optimizer,
    **{
        f"horovod.torch.{name}": lambda _it, _call: RankValue()
        for name in ("rank", "local_rank", "cross_rank")
    },
    "horovod.torch.size": lambda it, _call: Const(it.target.world),
    **{f"horovod.torch.{name}": model_call(name) for name in _COLLECTIVES},
}
