"""One row of advice: what the words of a log narrow a signature to, and what to do and to type then."""

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """What is said where the lines of a signature have some words; "" is the signature's own."""

    codes: str
    """Of one signature or several, with blanks between."""
    words: str
    """A pattern, in which ^ and $ are the ends of a line."""
    cause: str = ""
    fix: str = ""
    command: str | None = None
    """None: rows below may have one; "": none is right for these words."""
    in_frames: bool = False
    """Whether the words are looked for in the innermost frames (path:function), too."""
