"""What a program says that it does in place of what failed: it handled that, and continues. Pure."""

from collections.abc import Sequence

from preflight import regex as re

# What a program says that continues without what failed; what one says that ends, or of a whole run that did.
_INSTEAD = re.compile(
    r"(?i)\b(?:skip(?:s|ped|ping)?|left out\b(?! of)|left out of (?:the )?(?:host|node|inventory)\w*|leaving (?:it|them) out|without (?:it|them)|eager|replac(?:ed|ing)|ignor(?:e[ds]?|ing)|falls? back|falling back|(?:us(?:es|ing|ed)|sett?(?:ing|s)?) (?:the |a |an |to )?(?:cached?|copy|defaults?|previous|last|old|fallback|local)\b|rebuild(?:s|ing)?|regenerating|recomputing|(?:kept|stays?) (?:at|in|on|locally)|reading the copy|instead|continu(?:es?|ing)|halving|try(?:ing)? (?:the |an)?(?:next|other|one before|again|\d+)|restarting (?:it|them))\b"
)
_ENDS_ITSELF = re.compile(
    r"(?i)\b(?:abort|exit(?!_)|stop|quit|giv(?:e|ing) up|terminat|shut|raise|cannot continue|can't continue|not continu|unable to continue|nothing|impossible|useless|(?:(?:pre-?|fine-?)?(?:train(?:ing)?(?! without)|tun(?:e|ing))|stages?|jobs?|sweeps?|trials?|experiments?|folds?|seeds?|runs?|configs?|configurations?)\b)"
)
# What such words and a message share: numbers, or starts of words; functions that end with what they caught.
_NUMBER = re.compile(r"\d+")
_NAMES = re.compile(r"\b(?!torch|error|excep|faile|failu|invali|found|train|model)[a-z]{5}[a-z]?")
_WHOLE = re.compile(r", in (?:<module>|\w*main\w*|run|train|fit|launch|cli)$")
_LONGEST, _BELOW = 2000, 4


def says_instead(text: str) -> bool:
    """Whether a line says what a program does in place of what failed, and not that it ends."""
    return _INSTEAD.search(text[:_LONGEST]) is not None and _ENDS_ITSELF.search(text[:_LONGEST]) is None


def replaces_failed(message: str, below: Sequence[str], frame: str = "") -> bool:
    """Whether a program says below an exception, by its numbers or else its words, what it does instead.

    `frame`: the first line of the traceback; where none is shown, what caught the exception printed it.
    """
    for text in filter(says_instead, below[: _BELOW if frame else 2]):
        names = _NUMBER if _NUMBER.search(text) else _NAMES
        alike = {*names.findall(text.lower())} & {*names.findall(message.lower())}
        if (alike and ("WARN" in text or not _WHOLE.search(frame))) or (names is _NAMES and not frame):
            return True
    return False
