"""The directory in which a text launches: what `cd`, `pushd` and `popd` in front of it enter. Pure."""

import posixpath

from launcher.engines.command_line.shell.missing_values import explain_no_values
from launcher.engines.command_line.shell.parameter_expansion import SUBMITTED
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re

_SUBMITTED = re.compile(
    rf"\$(?:{{(?:{SUBMITTED})(?::?-(?:\"\"|'')?)?}}|(?:{SUBMITTED}))(?:/++(?P<inside>.*))?"
)


class WorkingDirectory:
    """Where the next command runs, below the directory in which the text starts."""

    def __init__(self, start: str) -> None:
        self.start = start  # absolute, "" where it is not known
        self.path = ""
        self.stack: tuple[str, ...] = ()  # what `popd` returns to
        self._before = ""  # what `cd -` returns to

    @property
    def absolute(self) -> str:
        """The whole path; "" where the start is not known."""
        return posixpath.normpath(posixpath.join(self.start, self.path)) if self.start else ""

    def move(self, name: str, to: Word) -> None:
        """Take `cd TO`, `pushd TO` or `popd`. Raises CommandRefused for a directory without a value."""
        if name == "popd":
            self._enter(self.stack[-1] if self.stack else self.path)
            self.stack = self.stack[:-1]
            return
        self.stack += (self.path,) if name == "pushd" else ()
        submitted = _SUBMITTED.fullmatch(to.text) if len(to.unresolved) == 1 else None
        if submitted is not None:  # the directory that a batch script is submitted in, where it is pasted
            self.path, to = "", Word(submitted["inside"] or ".")
        if not to.is_known:
            raise explain_no_values((to,), "cd")
        self._enter(
            self._before if to.text == "-" else posixpath.normpath(posixpath.join(self.path, to.text))
        )

    def _enter(self, path: str) -> None:
        self._before, self.path = self.path, path
