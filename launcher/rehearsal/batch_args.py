"""Half the batch, twice the accumulation: the same step in half the memory. Pure."""

from collections.abc import Mapping

from launcher.planning.script_args import value_of, with_value


def halved(args: tuple[str, ...], options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the next smaller command line; None when there is none or `batch_args` does not say how."""
    batch, accumulation = options.get("batch", ""), options.get("accumulation", "")
    size = value_of(args, batch) if batch else None
    if size is None or size < 2:
        return None
    args = with_value(args, batch, size // 2)
    if not accumulation:
        return args
    times = -(-size // (size // 2))  # 3 -> 1 takes three times as many
    steps = value_of(args, accumulation)
    if steps is None:
        return (*args, accumulation, str(times))
    return with_value(args, accumulation, steps * times)
