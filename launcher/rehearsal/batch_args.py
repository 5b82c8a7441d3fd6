"""Half the batch, twice the accumulation: the same step in half the memory. Pure."""

from collections.abc import Mapping

from preflight.decide.script_args import get_option


def halve_batch(args: tuple[str, ...], options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the next smaller command line; None when there is none or `batch_args` does not say how."""
    batch, accumulation = options.get("batch", ""), options.get("accumulation", "")
    size = get_option(args, batch) if batch else None
    if size is None or size < 2:
        return None
    args = _set_option(args, batch, size // 2)
    if not accumulation:
        return args
    times = -(-size // (size // 2))  # 3 -> 1 takes three times as many
    steps = get_option(args, accumulation)
    if steps is None:
        return (*args, accumulation, str(times))
    return _set_option(args, accumulation, steps * times)


def _set_option(args: tuple[str, ...], option: str, value: int) -> tuple[str, ...]:
    """Return the command line with another number for an option that it has."""
    changed = list(args)
    for index, word in enumerate(args):
        if word.startswith(f"{option}="):
            changed[index] = f"{option}={value}"
        elif word == option and index + 1 < len(args):
            changed[index + 1] = str(value)
    return tuple(changed)
