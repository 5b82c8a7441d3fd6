"""Loops that read a text in place: `while read -r NAME; do ...; done <<EOF` and `done <<< TEXT`. Pure."""

from collections.abc import Iterator

from launcher.engines.command_line.shell.redirections import read_text
from launcher.engines.command_line.shell.state import ShellState
from launcher.engines.command_line.shell.tokens import ShellTokens
from launcher.engines.command_line.shell.words import Operator, Word
from preflight import regex as re

_READ = re.compile(
    r"\s*(?:IFS=(?:[^\s'\"]|'[^'\n]*'|\"[^\"\n]*\")*[ \t]+)?read((?:[ \t]+-r)?(?:[ \t]+[A-Za-z_]\w*)+)[\s;]*"
)
_INPUT = re.compile(r"[ \t]*<<(?:<|(?=[^<]))")
_LEAVES = re.compile(r"\b(?:break|return|exit)\b")
_MOST_LINES = 1000


def list_rounds(
    text: str, condition: str, span: tuple[int, int], shell: ShellState
) -> Iterator[dict[str, str]] | None:
    """Return the rounds of a loop, in each of which its variables get a line; None for any other loop.

    `span` is that of its body and its `done`, behind which the text in place is.
    """
    reads = _READ.fullmatch(condition)
    if reads is None or not _INPUT.match(text, span[1]):
        return None
    tokens = ShellTokens(text, shell.values)
    tokens.seek(span[1])
    operator, given = next(tokens, None), next(tokens, None)
    if not isinstance(given, Word) or not given.is_known:
        return None
    lines = (given.text if operator == Operator("<<<") else given.text.removesuffix("\n")).split("\n")
    if len(lines) > _MOST_LINES or ("\\" in given.text and " -r" not in reads[1]):
        return None
    command = ShellTokens(condition.strip("; \t\n"), shell.values)
    words = [token for token in command if isinstance(token, Word)]
    names = [name for name in reads[1].split() if name != "-r"]

    def rounds() -> Iterator[dict[str, str]]:
        for line in lines:
            read_text(shell, [*words], Word(line))
            yield {name: str(shell.values[name]) for name in names}
        for name in names:  # `read` gives them nothing at the end, which the text may not reach
            if _LEAVES.search(text, *span):
                shell.forget(name, is_exported=False, why="read from a text")
            else:
                shell.values[name] = ""

    return rounds()
