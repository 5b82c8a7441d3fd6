"""`via:` of a host: the command that carries bytes to it, beside or on top of SSH, as a value."""

import posixpath
from dataclasses import field

from launcher.config.value_types import Custom, Schema
from launcher.config.yaml_tree import YamlNode, hint_nearest
from preflight import regex as re
from preflight.frozen import dataclass

COMMAND = "command"  # the kind of a `via:` that is a list of words; the others are rows of PRESETS
NO_VIA = "none"
_MOST_WORDS, _MOST_CHARACTERS = 64, 2000  # a person must be able to read the whole of it before saying yes
_PLACE = re.compile(r"\{([a-z_]+)\}")
_PLACES = ("host", "command")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]|\{host\})*|\{host\}(?:[A-Za-z0-9_.:-]|\{host\})*"
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?"
_CONTEXT = r"[A-Za-z0-9][A-Za-z0-9_.:@/-]*"
_FLAG = "true|false"


@dataclass(frozen=True, slots=True)
class Via:
    """What carries a host's bytes; `{host}` in it is not replaced yet.

    `kind` is a row of PRESETS, whose `name` and `options` these are, or COMMAND, with its words.
    """

    kind: str
    name: str = ""  # of the container or pod; "" is the only one that runs
    options: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()

    def option(self, name: str) -> str:
        """Return an option's value, "" where it is not given."""
        return dict(self.options).get(name, "")

    @property
    def is_on_host(self) -> bool:
        """Whether its command runs on the host that SSH reaches; else locally, or where `address:` says."""
        return self.kind in PRESETS and PRESETS[self.kind].on_host

    def __str__(self) -> str:
        """Return how a message names it."""
        if self.kind == COMMAND:
            return " ".join(self.words)
        return f"{self.kind} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of `via:` whose command gpulaunch writes itself: all that a file adds are names."""

    what: str  # a container, a pod
    on_host: bool  # whether the command runs on the host that SSH reaches; else locally
    needs_name: bool
    options: dict[str, str] = field(default_factory=dict)  # name to pattern


_CONTAINER = Preset("container", on_host=True, needs_name=False, options={"user": _USER, "sudo": _FLAG})
PRESETS: dict[str, Preset] = {
    "docker": _CONTAINER,
    "podman": _CONTAINER,
    "kubectl": Preset(
        "pod",
        on_host=False,
        needs_name=True,
        options={"namespace": _NAME, "container": _NAME, "context": _CONTEXT},
    ),
}
_AS_WORDS = {
    **dict.fromkeys(("apptainer", "singularity"), "via: [{program}, exec, --nv, IMAGE.sif]"),
    "nerdctl": "via: [{program}, exec, -i, NAME]",
    **dict.fromkeys(("lxc", "incus"), "via: [{program}, exec, NAME, --]"),
}
"""Programs that enter containers, and how each is written. They have not been tried."""
_EXPECTED = (
    f"{', '.join(kind for kind, preset in PRESETS.items() if not preset.needs_name)}, a mapping such as"
    " {docker: NAME}, a command as a list of words, or none"
)
_WHICH = f"one of {', '.join(PRESETS)} as a key"


def check_via(via: Via) -> str:
    """Return why a value, whatever its origin, can be no `via:`; "" where it can."""
    if via.kind == COMMAND:
        return _words_problem(via.words)
    preset = PRESETS.get(via.kind)
    if preset is None:
        return f"{via.kind!r} is not known"
    if (via.name or preset.needs_name) and not re.fullmatch(_NAME, via.name):
        return f"{via.name!r} is not a name of a {preset.what}"
    for name, value in via.options:
        if name not in preset.options:
            hint = hint_nearest(name, tuple(preset.options))
            return f"{name} is not an option of {via.kind}{hint}; expected {', '.join(preset.options)}"
        if not re.fullmatch(preset.options[name], value):
            return f"{name}: {value!r} does not fit"
    return ""


def fill_places(text: str, host: str, command: str = "") -> str:
    """Return a word with its places filled; what is filled in is not read again."""
    values = {"host": host, "command": command}
    return _PLACE.sub(lambda match: values[match[1]], text)


def check_command(words: tuple[str, ...]) -> str:
    """Return why words of a file cannot be a command that a person confirms; "" where they can."""
    if not words or len(words) > _MOST_WORDS or sum(map(len, words)) > _MOST_CHARACTERS:
        return f"expected 1 to {_MOST_WORDS} words of at most {_MOST_CHARACTERS} characters together"
    for word in words:
        if not word.isprintable():
            return f"{word!r} holds a character that cannot be shown"
    program = words[0]
    if "{" in program or program.startswith("-") or not program:
        return f"{program!r} is not a program"
    away = program.startswith(("/", "~/")) and posixpath.normpath(program) == program
    if "/" in program and (not away or program.startswith(("/proc/", "/dev/"))):
        return f"{program!r} depends on the working directory; expected a name, an absolute path or ~/..."
    return ""


def _words_problem(words: tuple[str, ...]) -> str:
    for word in words[:_MOST_WORDS]:
        unknown = [place for place in _PLACE.findall(word) if place not in _PLACES]
        if unknown:
            hint = hint_nearest(unknown[0], _PLACES)
            return f"{{{unknown[0]}}} is not filled in{hint}; expected {{host}} or {{command}}"
    return check_command(words)


def _read(item: YamlNode) -> Via:
    via = _shape(item)
    problem = "" if via.kind == NO_VIA else check_via(via)
    if problem:
        raise ValueError(f"{_EXPECTED} ({problem})")
    return via


def _shape(item: YamlNode) -> Via:
    if item.value == "srun" or (isinstance(item.value, dict) and "srun" in item.value):
        raise ValueError(f"{_EXPECTED} (the nodes of a Slurm job need no via:, see docs/slurm.md)")
    if isinstance(item.value, tuple):
        return Via(COMMAND, words=tuple(_text(part) for part in item.value))
    if isinstance(item.value, dict):
        values = {name: _text(part) for name, part in item.value.items()}
        kinds = [name for name in values if name in PRESETS]
        if len(kinds) != 1:
            raise ValueError(f"{_EXPECTED} ({next(filter(None, map(_hint, values)), _WHICH)})")
        options = tuple((name, value) for name, value in values.items() if name != kinds[0])
        return Via(kinds[0], values[kinds[0]], options)
    word = item.text
    if word == NO_VIA or word in PRESETS:
        return Via(word)
    hint = _hint(word)
    raise ValueError(f"{_EXPECTED} ({hint})" if hint else _EXPECTED)


def _hint(word: str) -> str:
    """Return how another program that enters containers is written, or which one is meant."""
    program, *rest = re.split(r"[\s:]+", word)
    if program in PRESETS and rest:
        names = [each for each in rest if each != "exec" and not each.startswith("-")]
        is_plain = len(names) == 1 and re.fullmatch(_NAME, names[0])
        return f"did you mean {{{program}: {names[0] if is_plain else 'NAME'}}}?"
    if word in _AS_WORDS:
        return f"{word} is a list of words: {_AS_WORDS[word].format(program=word)}"
    fitting = [kind for kind, preset in PRESETS.items() if word in preset.options]
    if fitting:
        return f"{word}: goes with {' or '.join(fitting)}, as in {{{fitting[0]}: NAME, {word}: VALUE}}"
    near = "" if word in PRESETS else hint_nearest(word, tuple(PRESETS))
    return near.removeprefix("; ")


def _text(item: YamlNode) -> str:
    if not isinstance(item.value, str):
        raise ValueError(f"{_EXPECTED}; {item.kind} is not a word")  # noqa: TRY004 - how a kind says so
    return item.value


def _schema() -> Schema:
    text: Schema = {"type": "string", "maxLength": _MOST_CHARACTERS}
    scalar: Schema = {"type": ["string", "boolean"]}
    mappings = [
        {
            "type": "object",
            "required": [kind],
            "additionalProperties": False,
            "properties": {kind: text, **dict.fromkeys(preset.options, scalar)},
        }
        for kind, preset in PRESETS.items()
    ]
    alone = [kind for kind, preset in PRESETS.items() if not preset.needs_name]
    words = {"type": "array", "items": text, "minItems": 1, "maxItems": _MOST_WORDS}
    return {"anyOf": [{"enum": [*alone, NO_VIA]}, *mappings, words]}


VIA = Custom(_EXPECTED, _read, _schema)
