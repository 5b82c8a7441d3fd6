"""`tmux` and `screen`, which keep a terminal for a command: where it is. Pure."""

import posixpath
from collections.abc import Callable, Sequence
from itertools import pairwise

from launcher.engines.command_line.shell.words import Word
from preflight import regex as re
from preflight.frozen import dataclass

SENTENCE = "a run continues without its client; --detach leaves at once"
_NEW = ("new", "new-session", "neww", "new-window")
_SEND = ("send", "send-keys")
_KEY = re.compile(r"[Cc]-[A-Za-z]|Enter|ENTER|KPEnter|Escape|Tab")
_ENDED = re.compile(r"(?:\\[nr]|\\015|\^M|\s)+$")  # behind a text that `screen -X stuff` types

_LOOKS = re.compile(r"-(?:[dD]?[rRx]{1,2}|ls|list|wipe)")  # of screen, to show a kept terminal

_VALUES = {"tmux": re.compile(r"-[snctxyFeLSf]"), "screen": re.compile(r"-[A-Za-z]*S|-Logfile|-[cehpstT]")}
"""Options with a value, in a word of its own."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The command of a terminal that is kept; none where `start` is `end`."""

    start: int
    end: int
    directory: str = ""  # in which a new one starts


def read_terminal(words: Sequence[Word], start: int) -> Terminal | None:
    """Return what a terminal is kept for; None for any other command, and for what cannot be looked into."""
    name = posixpath.basename(words[start].text)
    if name not in _VALUES:
        return None
    texts = [word.text for word in words]
    at = skip_options(texts, start + 1, _VALUES[name].fullmatch)
    end = len(texts)
    if name == "screen":
        is_nothing = "-X" in texts[start + 1 : at] or any(map(_LOOKS.fullmatch, texts[start + 1 : at]))
        return Terminal(end, end) if is_nothing else Terminal(at, end)
    verb, behind = texts[at] if at < end else "", at + 1
    at = skip_options(texts, behind, _VALUES[name].fullmatch)
    if verb in _SEND:
        end -= next((number for number, key in enumerate(reversed(texts)) if not _KEY.fullmatch(key)), 0)
        return Terminal(at, max(at, end))
    if verb not in _NEW:
        return Terminal(end, end)
    folders = (after for option, after in pairwise(texts[behind:at]) if option == "-c")
    return Terminal(min(at, end), end, next(folders, ""))


def extract_typed(words: Sequence[Word]) -> str | None:
    """Return what a command types into a terminal that is kept, as a text of a shell.

    A new terminal without a command starts in its directory. None for any other command.
    """
    texts = [word.text for word in words]
    name = posixpath.basename(texts[0])
    if name == "screen" and texts[-3:-1] == ["-X", "stuff"]:
        return _ENDED.sub("", texts[-1])
    terminal = read_terminal(words, 0) if name == "tmux" else None
    if terminal is None:
        return None
    if terminal.start == terminal.end:
        return f'cd "{terminal.directory}"' if terminal.directory else None
    is_sent = not frozenset(_NEW).intersection(texts[1 : terminal.start])
    return texts[terminal.start] if is_sent and terminal.end == terminal.start + 1 else None


def extract_locked(words: Sequence[Word]) -> str | None:
    """Return the text that `flock FILE -c TEXT` gives a shell of its own; None for any other command."""
    texts = [word.text for word in words]
    at = next((at for at, text in enumerate(texts) if text in ("-c", "--command")), len(texts))
    return f"({texts[at + 1]}\n)" if texts[0] == "flock" and at + 1 < len(texts) else None


def skip_options(texts: Sequence[str], at: int, has_value: Callable[[str], object]) -> int:
    """Return where the options of a command end; `has_value`: whether the next word is the value of one."""
    while at < len(texts) and texts[at].startswith("-"):
        at += 2 if has_value(texts[at]) else 1
    return min(at, len(texts))
