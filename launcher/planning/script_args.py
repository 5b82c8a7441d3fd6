"""Options of a training script on its command line: the value of one, and one with another value. Pure."""


def get_option(args: tuple[str, ...], option: str) -> int | None:
    """Return the number that an option has in a command line, None when it is absent or no number."""
    for index, word in enumerate(args):
        text = word.removeprefix(f"{option}=") if word.startswith(f"{option}=") else ""
        if word == option and index + 1 < len(args):
            text = args[index + 1]
        if text.isdecimal():
            return int(text)
    return None


def set_option(args: tuple[str, ...], option: str, value: int) -> tuple[str, ...]:
    """Return the command line with another number for an option that it has."""
    changed = list(args)
    for index, word in enumerate(args):
        if word.startswith(f"{option}="):
            changed[index] = f"{option}={value}"
        elif word == option and index + 1 < len(args):
            changed[index + 1] = str(value)
    return tuple(changed)
