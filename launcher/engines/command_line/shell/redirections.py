"""What commands in front of a launch read and write: files, texts in place, logs. Pure."""

import posixpath
from collections.abc import Iterable, Iterator

from launcher.engines.command_line.options import RANK_LOGS
from launcher.engines.command_line.parsed_command import MissingValue
from launcher.engines.command_line.shell.block_extents import CLOSERS
from launcher.engines.command_line.shell.state import ShellState
from launcher.engines.command_line.shell.tokens import ShellTokens
from launcher.engines.command_line.shell.variables import get_separators
from launcher.engines.command_line.shell.words import Operator, Word, is_assignment, split_fields
from launcher.engines.command_line.tables.shells import starts_posix_shell
from launcher.errors import CommandRefused
from preflight import regex as re

_WRITTEN = "written by the text alone: write it on each host, where the training reads it"
INPUT = Word("<<<", ("<<<",))  # in front of a command of `$(...)`, and its input behind it

_PRINTERS = ("echo", "printf", "cd", "cat", "pwd")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SHELL = (Word("bash"), Word("-c"))
_OF_SHELL = re.compile(r"(?!#!)|#![^\n]*(?<!\w)(?:ba|da|k|z)?sh\b")
_SUBMITTERS = ("sbatch", "qsub", "bsub")
_LISTS = ("mapfile", "readarray")
_WRITERS = ("cat", "echo", "printf", "tee", "jq", "sed", "envsubst", "scontrol", "sort", "cp")
_PYTHON = re.compile(r"(?:/[\w./-]*/)?python[\d.]*", re.ASCII)


def read_here(shell: ShellState, words: list[Word], text: Word) -> None:
    """Take a text in place for `read`, `cat` or python. Raises CommandRefused for any other command."""
    names = [*(posixpath.basename(word.text) for word in words[:1]), *(word.text for word in words[1:])]
    if shell.is_output and not _read_names(words):
        words[:0] = [INPUT, text]
    elif not words:
        words.append(Word(":"))  # `<<NOTE`, a comment
    elif _read_names(words):
        is_whole = any(re.match(r"-\w*d", name) for name in names) or names[0] in _LISTS
        lines = text.text.rstrip("\n") if is_whole else text.text.partition("\n")[0]
        read_text(shell, words, Word(lines, text.unresolved))
        words[:] = [Word(":")]
    elif names[:1] == ["cat"] or names[:1] == ["tee"] or names[:2] == ["sudo", "tee"]:
        shell.body = text if shell.blocks.runs else None
        shell.writing += [name for name in names[1:] if not name.startswith("-") and name != "tee"]
        shell.written |= dict.fromkeys(shell.writing, shell.body)
        shell.dropped += [f"{names[0]} > {name}: {_WRITTEN}" for name in shell.writing if "tee" in names]
    elif at := _program_in_place(names):
        words[at:] = [Word("-c"), text]
    elif names and names[0] in _SUBMITTERS:
        shell.dropped.append(f"{' '.join(names)}: gpulaunch starts the script that it gets itself")
        words[:] = [Word("eval"), text]
    elif names[:1] not in (["ssh"], ["mail"], [":"], ["done"]) and shell.blocks.runs is not False:
        raise CommandRefused(
            f"the text gives {names[0]} its input in place (<<)",
            "write what it does into a file first, and paste the launch alone",
        )


def _program_in_place(names: list[str]) -> int:
    """Return how many words are in front of a program that python or a shell reads from its input; else 0."""
    if names[:1] == ["srun"] or starts_posix_shell(names[0] if names else ""):
        at = next((at for at, name in enumerate(names) if starts_posix_shell(name)), len(names))
        return at + 1 if at < len(names) and set(names[at + 1 :]) <= {"-s", "-l", "-e", "-"} else 0
    at = next((at for at, name in enumerate(names) if _PYTHON.fullmatch(name)), len(names))
    rest = names[at + 1 :]
    is_program = "-" in rest or all(name.startswith("-") for name in rest)
    return at + 1 if names[at:] and is_program else 0


def _find_written(shell: ShellState, name: Word) -> Word | None:
    """Return the text that a file has which the text writes; None for any other file."""
    found = {posixpath.normpath(one): body for one, body in shell.written.items() if one}
    return found.get(posixpath.normpath(name.text)) if name.is_known and name.text else None


def find_settings(shell: ShellState, name: Word) -> str | None:
    """Return a file of settings that the text has written, or that may be read; None for any other."""
    written = _find_written(shell, name)
    if written is not None and written.is_known:
        return written.text
    return shell.text_of(name.text) if name.is_known else None


def replace_written(shell: ShellState, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return a command that runs a script which the text has written, with its text: `bash run.sh`."""
    start = next((at for at, word in enumerate(words) if not is_assignment(word)), 0)
    before = ""  # the last word without the options behind it: `bash -e run.sh`
    for at, word in enumerate(words) if shell.written else ():
        is_program = at == start and "/" in word.text
        is_submitted = at == 1 == len(words) - 1 and words[0].text in _SUBMITTERS
        is_script = at > start and starts_posix_shell(before)
        before = before if word.text.startswith("-") else word.text
        body = _find_written(shell, word) if is_program or is_submitted or is_script else None
        if body is not None and (is_script or _OF_SHELL.match(body.text)):
            return (*words[: at if is_script else start], *_SHELL[is_script:], body, *words[at:])
    return words


def list_unwritten(words: tuple[Word, ...], shell: ShellState) -> tuple[MissingValue, ...]:
    """Return files that a launch names, that the text writes in front of it and that do not exist yet."""
    named = [word.text for at, word in enumerate(words) if at < 2 or words[at - 2].text != "-c"]
    parts = {posixpath.normpath(part) for text in named for part in re.split(r"[=,:]", text) if part}
    lacking: list[MissingValue] = []
    for name, body in shell.written.items():
        if not name or posixpath.normpath(name) not in parts:
            continue
        local = shell.text_of(name)
        if local is None:
            message, fix = "is not written yet", "write it as the text does, and launch then"
        elif body is not None and body.is_known and local.split() != body.text.split():
            message, fix = (
                "is another one on this machine",
                "write it as the text does, or take that part out",
            )
        else:
            shell.dropped.append(f"{name}: taken as it is on this machine")
            continue
        lacking.append(MissingValue(f"the launch reads {name}, which the text writes, and it {message}", fix))
    return tuple(lacking)


def read_text(shell: ShellState, words: list[Word], text: Word) -> None:
    """Take `IFS=, read -r NAME NAME <<< TEXT` and `mapfile -t NAME <<< TEXT`.

    A loop that reads a text is one that the text does not decide. Raises CommandRefused for any other text in
    place.
    """
    shown = [word.text for word in words]
    if not (names := _read_names(words)):
        if shown[:1] not in ([], ["done"]):
            read_here(shell, words, Word(f"{text.text}\n", text.unresolved))
        return
    is_list = shown[0] in _LISTS
    marks = shown[0].removeprefix("IFS=") if shown[0].startswith("IFS=") else get_separators(shell.values)
    is_array = is_list or any(re.fullmatch(r"-\w*a", word) for word in shown)
    blanks = "\n" + "".join(filter(str.isspace, marks))
    most, whole = 0 if is_array else len(names) - 1, text.text.strip(blanks)
    found: Iterable[str | None] = split_fields(whole, marks, most) if is_array or most else (whole,)
    found = text.text.removesuffix("\n").split("\n") if is_list else found
    fields = [one for one in found if one is not None]
    is_escaped = (
        "\\" in text.text and not is_list and not any(re.fullmatch(r"-\w*r\w*", one) for one in shown)
    )
    for number, name in enumerate(names):
        if (
            is_escaped
            or shell.blocks.runs is None
            or (is_list and (not text.is_known or shown[1:-1] != ["-t"]))
        ):
            shell.forget(name, is_exported=False, why="read from a text")
        elif shell.blocks.runs and not text.is_known:
            shell.values[name] = text
        elif shell.blocks.runs:
            field = fields[number].strip(blanks) if number < len(fields) else ""
            shell.values[name] = tuple(map(Word, fields)) if is_array else field
    words.clear()


def read_redirection(
    shell: ShellState,
    words: list[Word],
    operator: str,
    tokens: Iterator[Word | Operator],
    *,
    is_end_of_loop: bool,
) -> None:
    """Take `> FILE` or `< FILE` of a command. Raises CommandRefused for an input, which ranks do not have."""
    to = "" if re.search(r"&[\d-]$", operator) else read_target(tokens).text
    if shell.is_output:
        name = words[0].text if words else ""
        if operator.endswith("<") or name not in _PRINTERS or name in shell.functions:
            raise CommandRefused(f"a substitution redirects its output to {to}", "paste the launch alone")
        shell.redirected += [to] * (not operator.startswith("2"))
        return
    if shell.blocks.runs is False:
        return
    if operator.endswith("<") and (names := _read_names(words)):
        for name in names:
            shell.forget(name, is_exported=False, why="read from a terminal or a file")
        words[:] = [Word(":")]
        return
    is_filter = bool(words) and posixpath.basename(words[0].text) in _WRITERS
    if operator.endswith("<") and to != "/dev/null" and not is_end_of_loop and not is_filter:
        raise CommandRefused(
            f"the line reads {to} as its input, and ranks have none",
            "give the file to the script as an argument",
        )
    if not operator.endswith("<"):
        if is_filter and not operator.startswith("2"):
            shell.writing += [] if operator.endswith(">>") else [to]
            shell.written[to] = None if operator.endswith(">>") else shell.body
            if to and not to.startswith("/dev/"):
                shell.dropped.append(f"{words[0].text} > {to}: {_WRITTEN}")
            return
        choose_remarks(shell, words).append(f"{operator} {to}".rstrip() + f": {RANK_LOGS}")


def choose_remarks(shell: ShellState, words: list[Word]) -> list[str]:
    """Return where remarks on the output of a command go: those of a block hold, others where it launches."""
    return shell.redirected if words and words[0].text not in CLOSERS.values() else shell.dropped


def _read_names(words: list[Word]) -> list[str]:
    """Return the variables that `IFS=, read -r NAME NAME` or `mapfile -t NAME` sets; [] for others."""
    texts = [word.text for word in words]
    at = next((at for at, word in enumerate(words) if not is_assignment(word)), 0)
    is_read = texts[at : at + 1] in (["read"], *([name] for name in _LISTS))
    return [text for text in texts[at + 1 :] if _NAME.fullmatch(text)] if is_read else []


def read_string(tokens: ShellTokens) -> Word:
    """Return the word behind `<<<`, which a shell does not split: an empty one too."""
    tokens.splits = False
    word = read_target(tokens)
    tokens.splits = True
    return word


def read_target(tokens: Iterator[Word | Operator]) -> Word:
    """Return the word behind a redirection. Raises CommandRefused where a shell sees none."""
    token = next(tokens, None)
    if isinstance(token, Word):
        return token
    raise CommandRefused(
        "a redirection has no file behind it, or an empty name", "take it out, or name its file"
    )


def read_array(shell: ShellState, words: list[Word], tokens: Iterator[Word | Operator]) -> None:
    """Take `NAME=(WORDS)`, up to its parenthesis. Raises CommandRefused for one without an end."""
    name, found = words.pop().text, list[Word]()
    shell.values.cover(words if all(map(is_assignment, words)) else ())  # IFS=, NAME=($LIST)
    for token in tokens:
        if isinstance(token, Word):
            found.append(token)
        elif token.text == ")":
            shell.values.uncover()
            if shell.blocks.runs and not all(map(is_assignment, words)):
                shell.prepare((*words, Word(name.rstrip("+="))))  # local -a NAME=(WORDS)
            shell.assign_array(name, tuple(found))
            return
        elif token.text != "\n":
            break
    raise CommandRefused("the array has no end", "close its parenthesis, or paste all of it")
