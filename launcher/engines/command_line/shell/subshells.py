"""Parts of pipelines, and what runs in the background: nothing behind them sees what they set. Pure."""

from launcher.engines.command_line.shell.state import ShellState, Surroundings
from preflight import regex as re

ENDS = ("|", "|&", "&")  # behind what has a shell of its own

_END = re.compile(r"[ \t]*(?:\d{0,3}>{1,2}(?:&\d|[ \t]*[^\s;&|<>()]+)[ \t]*){0,3}(?:\|(?!\|)|&(?![&>]))")
_ANY = re.compile(r"(?:\b(?:fi|done|esac)\b|\})(?:[^\n;|&]|(?<=>)&){0,300}(?:\|(?!\|)|&(?![&>]))")


def is_subshell(text: str, at: int) -> bool:
    """Whether a pipe or `&` follows the block that ends at `at`."""
    return _END.match(text, at) is not None


def may_have_subshell(text: str) -> bool:
    """Whether a block of a text may be in front of one."""
    return _ANY.search(text) is not None


class Subshells:
    """The parts that are read now."""

    def __init__(self, shell: ShellState) -> None:
        self.shell = shell
        self.open: list[tuple[int, int, Surroundings]] = []  # blocks and groups around each

    @property
    def is_behind_pipe(self) -> bool:
        """Whether the next command is behind a pipe, and has a shell of its own (`shopt -s lastpipe`)."""
        return self.shell.blocks.is_behind_pipe and "shopt lastpipe" not in self.shell.values

    def enter(self, *, is_block: bool) -> None:
        """Start a part; `exit` in a block ends that alone."""
        blocks = self.shell.blocks
        blocks.is_behind_pipe = False
        self.shell.parts += 1
        self.open.append((len(blocks.open), int(is_block), self.shell.enter_group(int(is_block))))

    def leave(self, *, is_left: bool = False) -> None:
        """End the parts whose blocks have ended, or all of a text that `return` has left."""
        while self.open and (is_left or len(self.shell.blocks.open) <= self.open[-1][0]):
            _, count, before = self.open.pop()
            self.shell.restore(before, count)
            self.shell.parts -= 1
            self.shell.blocks.code = None  # `set -o pipefail` may be on
