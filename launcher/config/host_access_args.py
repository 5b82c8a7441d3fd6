"""The options that reach hosts, in the commands of messages: they must be typed again with each command."""

import shlex
from collections.abc import Container, Iterable, Iterator, Sequence

from launcher.local.home import shorten_path
from preflight import regex as re
from preflight.checks.message_text import quote_path

OPTIONS = {"-i": "-i", "--inventory": "-i", "--identity-file": "--identity-file"}
HOST_COMMANDS = re.compile(
    r"\bgpulaunch (?:bench|clean-zombies|init|preflight)(?= (?!HOSTS?\b|--from|-i |--identity-file )\S)"
)

_ABOUT_RUNS = ("attach", "fetch", "forward", "logs", "rm", "stacks", "stop")
RUN_COMMANDS = re.compile(
    rf"\bgpulaunch (?:{'|'.join(_ABOUT_RUNS)})(?= (?!RUN\b|--hosts |-i |--identity-file )\S)"
)


def read_access_words(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command line that reach hosts, each with its value, as a shell reads them."""
    found = _find_values(argv, OPTIONS)
    return tuple(word for name, path in found for word in (OPTIONS[name], quote_path(shorten_path(path))))


def _find_values(argv: Sequence[str], options: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line that are among `options`, with their values."""
    rest = iter(argv[: argv.index("--")] if "--" in argv else argv)
    for word in rest:
        joined = word[:2] == "-i" and word != "-i"
        name, equals, value = ("-i", "=", word[2:]) if joined else word.partition("=")
        if name in options:
            yield name, value if equals else next(rest, "")


def read_run_words(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the options by which a command line about a run reaches its hosts, as a shell reads them.

    A launch keeps locally how it reached them; any other machine finds a run by these words alone.
    """
    if not argv or argv[0] not in _ABOUT_RUNS:
        return ()
    hosts = _find_values(argv, ("--hosts",))
    return (*read_access_words(argv), *(word for name, value in hosts for word in (name, shlex.quote(value))))


def without_option(words: Sequence[str], name: str = "--identity-file") -> tuple[str, ...]:
    """Return these options without one: that which names a private key, if no other is given."""
    pairs = zip(words[::2], words[1::2], strict=True)
    return tuple(word for pair in pairs if pair[0] != name for word in pair)


def complete_commands(text: str, words: Iterable[str], commands: re.Pattern[str] = HOST_COMMANDS) -> str:
    """Return a message whose commands about hosts, or about a run, have these words.

    The modules that make documents apply it, for their JSON has the commands too, and so does the
    handler of errors, for all that ends a command: what prints lines knows neither options nor commands.
    """
    options = " ".join(words)
    return commands.sub(lambda command: f"{command[0]} {options}", text) if options else text


def complete_run_commands(text: str, words: Sequence[str]) -> str:
    """Return a message whose commands about a run have these words, and those about hosts all but --hosts."""
    text = complete_commands(text, words, RUN_COMMANDS)
    return complete_commands(text, without_option(words, "--hosts"))
