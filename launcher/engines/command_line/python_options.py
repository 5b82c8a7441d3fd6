"""Options of the python interpreter, as environment variables of the ranks (`python --help-env`)."""

from collections.abc import Sequence

from launcher.engines.command_line.parsed_command import ProgramKind
from launcher.engines.command_line.shell.words import Word
from launcher.errors import CommandRefused

_FLAGS: dict[str, dict[str, str]] = {
    "u": {},  # every rank runs unbuffered
    "B": {"PYTHONDONTWRITEBYTECODE": "1"},
    "O": {"PYTHONOPTIMIZE": "1"},
    "OO": {"PYTHONOPTIMIZE": "2"},
    "s": {"PYTHONNOUSERSITE": "1"},
    "v": {"PYTHONVERBOSE": "1"},
    "d": {"PYTHONDEBUG": "1"},
    "P": {"PYTHONSAFEPATH": "1"},
    "q": {},
    "b": {},
}
_X = {
    "faulthandler": ("PYTHONFAULTHANDLER", "1"),
    "importtime": ("PYTHONPROFILEIMPORTTIME", "1"),
    "dev": ("PYTHONDEVMODE", "1"),
    "utf8": ("PYTHONUTF8", "1"),
    "utf8=1": ("PYTHONUTF8", "1"),
    "tracemalloc": ("PYTHONTRACEMALLOC", "1"),
    "frozen_modules=off": ("PYTHON_FROZEN_MODULES", "off"),
}
_REFUSED = {
    "-c": ("the program is in the command line itself", "write it into a file"),
    "-i": ("it would wait for a terminal in every rank", "leave it out"),
    "-I": ("it hides the variables that each rank is started with", "leave it out"),
    "-E": ("it hides the variables that each rank is started with", "leave it out"),
    "-S": ("no rank could import torch from site-packages", "leave it out"),
    "-V": ("it prints the version, and starts nothing", "leave it out"),
    "--version": ("it prints the version, and starts nothing", "leave it out"),
    "-h": ("it prints the help, and starts nothing", "leave it out"),
    "-": ("the program would be read from standard input", "write it into a file"),
}


def read_options(words: Sequence[Word], start: int) -> tuple[int, dict[str, str], ProgramKind]:
    """Return where the program of `python ...` is, variables and its kind. Raises CommandRefused."""
    env: dict[str, str] = {}
    at = start + 1
    while at < len(words) and words[at].text.startswith("-"):
        text = words[at].text
        if text == "-m":
            return at + 1, env, "module"
        if text in _REFUSED:
            raise CommandRefused(f"{text} of python: {_REFUSED[text][0]}", _REFUSED[text][1])
        if text.startswith("-m"):  # the same word holds the name
            raise CommandRefused(f"{text} of python", f"write -m {text[2:]}")
        if text[:2] in ("-W", "-X"):
            attached = len(text) > 2
            value = text[2:] if attached else (words[at + 1].text if at + 1 < len(words) else "")
            env.update(_setting(text[:2], value, env))
            at += 1 if attached else 2
            continue
        env.update(_flags(text))
        at += 1
    return at, env, "script"


def _setting(option: str, value: str, env: dict[str, str]) -> dict[str, str]:
    if option == "-W" and value:
        before = env.get("PYTHONWARNINGS")
        return {"PYTHONWARNINGS": f"{before},{value}" if before else value}
    if value in _X:
        return dict([_X[value]])
    raise CommandRefused(
        f"{option} {value}".rstrip() + " of python has no variable that says the same", "leave it out"
    )


def _flags(text: str) -> dict[str, str]:
    if text[1:] in _FLAGS:
        return _FLAGS[text[1:]]
    env: dict[str, str] = {}
    for letter in text[1:]:
        if letter not in _FLAGS:
            raise CommandRefused(
                f"gpulaunch does not know {text} of python", "leave it out, or name the script first"
            )
        env.update(_FLAGS[letter])
    return env
