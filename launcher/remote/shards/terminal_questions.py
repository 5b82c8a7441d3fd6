"""Questions to the person at the terminal: the same one of several processes is asked once.

And what shards need beside answers. Imports little: every command does.
"""

import threading
from collections import Counter
from functools import partial

from launcher.config.inventory import Inventory
from launcher.transports.base import Confirm, OpenOptions, Prompt
from preflight.frozen import dataclass

CLIENT = -1  # this process as one that asks; shards have their numbers


class SharedAnswers:
    """Answers by question, in the order in which they were given.

    Who asks a question for the second time has found the first answer wrong, and gets the second one.
    """

    def __init__(self, prompt: Prompt | None, confirm: Confirm | None) -> None:
        self._prompt = prompt
        self._confirm = confirm
        self._answers: dict[tuple[tuple[str, ...], str], list[str | None]] = {}
        self._turns: Counter[tuple[int, tuple[str, ...], str]] = Counter()
        self._lock = threading.Lock()

    @property
    def can_ask(self) -> bool:
        """Whether a person can answer."""
        return self._prompt is not None

    def options(self, *, accept_new_host_keys: bool) -> OpenOptions:
        """Return the options with which this process opens connections."""
        if self._prompt is None or self._confirm is None:
            return OpenOptions(accept_new_host_keys)
        secret = partial(self._ask_or_raise, (), secret=True)
        visible = partial(self._ask_or_raise, secret=False)
        return OpenOptions(accept_new_host_keys, prompt=secret, confirm=visible)

    def _ask_or_raise(self, lines: tuple[str, ...], question: str, *, secret: bool) -> str:
        """Return the answer. Raises EOFError where there is none."""
        answer = self.ask(CLIENT, lines, question, secret=secret)
        if answer is None:
            raise EOFError
        return answer

    def ask(self, asker: int, lines: tuple[str, ...], question: str, *, secret: bool) -> str | None:
        """Return what was answered already, or ask; None where the input has ended."""
        with self._lock:
            turn = self._turns[asker, lines, question]
            self._turns[asker, lines, question] += 1
            given = self._answers.setdefault((lines, question), [])
            if turn >= len(given):
                given.append(self._ask_person(lines, question, secret=secret))
            return given[turn]

    def _ask_person(self, lines: tuple[str, ...], question: str, *, secret: bool) -> str | None:
        try:
            if secret:
                return self._prompt(question) if self._prompt else None
            return self._confirm(lines, question) if self._confirm else None
        except EOFError:
            return None


@dataclass(frozen=True, slots=True)
class ShardAccess:
    """What shards need to reach the hosts of an inventory as this process does."""

    inventory: Inventory
    person: SharedAnswers
    accept_new_host_keys: bool = False
    width: int | None = None  # hosts at once, of all shards together; None: as many as are useful
