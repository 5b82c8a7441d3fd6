"""Half the batch, twice the accumulation: the same step in half the memory. Pure."""

from collections.abc import Mapping


def value_of(args: tuple[str, ...], option: str) -> int | None:
    """Return the number that an option has in a command line, None when it is absent or no number."""
    for index, word in enumerate(args):
        text = word.removeprefix(f"{option}=") if word.startswith(f"{option}=") else ""
        if word == option and index + 1 < len(args):
            text = args[index + 1]
        if text.isdecimal():
            return int(text)
    return None


def with_value(args: tuple[str, ...], option: str, value: int) -> tuple[str, ...]:
    """Return the command line with another number for an option that it has."""
    changed = list(args)
    for index, word in enumerate(args):
        if word.startswith(f"{option}="):
            changed[index] = f"{option}={value}"
        elif word == option and index + 1 < len(args):
            changed[index + 1] = str(value)
    return tuple(changed)


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
