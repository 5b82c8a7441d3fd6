# Test shim, put in front of a script: two "GPUs" in Exclusive_Process mode on a machine that has none. What
# goes to cuda:N stays on the CPU, but first takes its only context, as the driver would: a lock that goes
# with the process. The second process that wants the same GPU gets the driver's error.
from typing import Any


def _show_exclusive_gpus() -> None:
    import fcntl  # noqa: PLC0415 - leaves no name behind in the script
    import os  # noqa: PLC0415

    import torch  # noqa: PLC0415

    place = os.environ["SHIM_GPUS"]
    held: dict[int, Any] = {}

    def open_context(device: Any) -> None:
        index = torch.device(device).index or 0
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
        if index >= len(visible):
            raise RuntimeError("CUDA error: invalid device ordinal")
        if index in held:
            return
        file = open(os.path.join(place, f"gpu{visible[index]}"), "w")  # noqa: SIM115, PTH123, PTH118 - for good
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RuntimeError(
                "CUDA error: CUDA-capable device(s) is/are busy or unavailable"  # torch's own words
            ) from None
        held[index] = file

    def moved(original: Any) -> Any:
        def to(self: Any, *args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], str | torch.device) and torch.device(args[0]).type == "cuda":
                open_context(args[0])
                args = (torch.device("cpu"), *args[1:])
            return original(self, *args, **kwargs)

        return to

    torch.nn.Module.to = moved(torch.nn.Module.to)
    torch.Tensor.to = moved(torch.Tensor.to)
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: len(os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(","))


_show_exclusive_gpus()
