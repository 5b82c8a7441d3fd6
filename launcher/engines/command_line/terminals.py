"""`tmux` and `screen`, which keep a terminal for a command: where their command is. Pure."""

import posixpath
import re
from collections.abc import Sequence

from launcher.engines.command_line.words import Word
from preflight.frozen import dataclass

SENTENCE = "a run continues without its client; --detach leaves at once"
_NEW = ("new", "new-session", "neww", "new-window")
_SEND = ("send", "send-keys")
_KEYS = ("Enter", "C-m", "ENTER", "c-m", "C-M", "KPEnter")
_VALUES = {"tmux": re.compile(r"-[snctxyFeLSf]"), "screen": re.compile(r"-[A-Za-z]*S|-Logfile|-[cehpstT]")}
"""Options with a value, in a word of its own."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The command of a terminal that is kept; none where `start` is `end`."""

    start: int
    end: int


def read_terminal(words: Sequence[Word], start: int) -> Terminal | None:
    """Return what a terminal is kept for; None for any other command, and for what cannot be looked into."""
    name = posixpath.basename(words[start].text)
    if name not in _VALUES:
        return None
    texts = [word.text for word in words]
    at = _after_options(texts, start + 1, name)
    end = len(texts)
    if name == "screen":
        return None if "-X" in texts[start + 1 : at] else Terminal(at, end)
    verb = texts[at] if at < end else ""
    at = _after_options(texts, at + 1, name)
    if verb in _SEND:
        end -= next((number for number, key in enumerate(reversed(texts)) if key not in _KEYS), 0)
        return Terminal(at, end) if at < end else None
    return Terminal(min(at, end), end) if verb in _NEW else Terminal(end, end)


def _after_options(texts: Sequence[str], at: int, name: str) -> int:
    while at < len(texts) and texts[at].startswith("-"):
        at += 2 if _VALUES[name].fullmatch(texts[at]) else 1
    return min(at, len(texts))
