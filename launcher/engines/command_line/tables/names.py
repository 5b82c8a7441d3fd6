"""Tables of names, written as a text. Pure."""


def as_names(text: str) -> tuple[str, ...]:
    """Return the names that a text lists, with blanks between them."""
    return tuple(text.split())
