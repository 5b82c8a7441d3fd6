"""Paths that the arguments of a job name and that its ranks may read. Pure: nothing is looked for."""

import posixpath
from collections.abc import Iterator, Mapping
from functools import lru_cache

from preflight import regex as re
from preflight.facts.redaction import is_secret_name
from preflight.frozen import dataclass
from preflight.job import Job

MOST = 20  # of one launch; each is a look at the disk of every host
_LONGEST, _LONGEST_NAME = 1000, 255  # of a path that a message can show; of a name in one
_OF_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+/.+")  # OWNER/NAME/FILE: where load_dataset() may look
_SETTINGS = r"\.(?:ya?ml|toml|ini|cfg|py)"
_MODEL = r"\.(?:pt|pth|ckpt|safetensors|bin|model|pkl|h5)"
_DATA = r"\.(?:jsonl?|csv|tsv|txt|parquet|arrow|npy|npz|hdf5|tar|zst|gz|zip|idx|lmdb)"
_FILE = rf"(?:{_SETTINGS}|{_MODEL}|{_DATA})"
_PATH = re.compile(rf"(?:~?/|\.{{1,2}}/)[^\s\x00-\x1f\x7f,:*?{{}}\[\]$]+|[\w.+@-]+(?:/[\w.+@-]+)*{_FILE}")
_IS_FILE = re.compile(rf".*{_FILE}")
_IS_SETTINGS = re.compile(rf".*{_SETTINGS}")
_IS_MODEL = re.compile(rf".*{_MODEL}")
_LIST = re.compile(r"[\[\]\"',\s]+")  # of `a,b` and `["a", "b"]`
_KEY = re.compile(r"[A-Z][A-Z0-9]*(?:[._][A-Z0-9]+)+")  # of yacs: OUTPUT_DIR out MODEL.WEIGHTS a.pth
_SYSTEM = ("/dev/", "/proc/", "/sys/", "/run/", "/var/run/")  # of one start of one host,
_TMP = "/tmp/"  # noqa: S108 - and mostly this
_WORD = re.compile(r"[A-Za-z]+")
# An option by one of these words is of a path that ranks write, whatever else its name says,
_WRITTEN = re.compile(r"(?i)out\w*|o|sav\w*|dump\w*|writ\w*|dest\w*|caches?|export\w*|stores?")
# or that they read,
_READ = re.compile(
    r"(?i)resum\w*|load\w*|init\w*|pretrain\w*|restor\w*|from|inputs?|data\w*|conf|configs?|tokenizer\w*"
)
# or else write,
_BY_RUN = re.compile(
    r"(?i)log\w*|work\w*|run\w*|exp\w*|te?mp\w*|results?|prof\w*|storage|tb|tensorboard\w*|wandb\w*|project|trainer|dirpath"
    r"|ckpts?|checkpoints?|snapshots?|traces?|reports?|scratch|record\w*|job\w*|pred(?:iction)?s|metrics?|stats|history"
)
# or read, as far as names go. By any other it may be either.
_MAY_READ = re.compile(
    r"(?i)train|val(?:id\w*)?|test|vocab\w*|merges?|weights?|ann\w*|labels?|manifests?|deepspeed|corpus|cfg|c"
)
_NAMES_SETTINGS = re.compile(r"(?i)conf|configs?|deepspeed|c")
_DIRECTORY = re.compile(r"(?i)dirs?|root|folder|prefix")


@dataclass(frozen=True, slots=True)
class InputPath:
    """What the arguments say of a path that ranks may read."""

    option: str = ""  # right before it, "" for none
    required: bool = False  # a file that ranks read, and that they look for nowhere else


def find_input_paths(job: Job) -> Mapping[str, InputPath]:
    """Return what the arguments let ranks read, by the path as it is given, at most 20."""
    return _find(job.args, job.output)


@lru_cache(maxsize=4)  # the same for each of 1,000 hosts
def _find(args: tuple[str, ...], output: str) -> Mapping[str, InputPath]:
    found: dict[str, InputPath] = {}
    given = [each for each in _given(args) if not is_secret_name(each[0])]
    joins = any(
        any(map(_DIRECTORY.fullmatch, words)) for option, _, _ in given if (words := _read_by(option))
    )
    for option, is_first, path in given:
        words = _read_by(option)
        if words is None or path.startswith(_SYSTEM) or (path.startswith(_TMP) and not _says(words)):
            continue
        if _PATH.fullmatch(path) and path.strip("/.~") and max(map(len, path.split("/"))) <= _LONGEST_NAME:
            required = _is_required(path, words, positional=not option, joins=joins)
            found.setdefault(path, InputPath(option if is_first else "", required))
    found.pop(output, None)
    return dict(list(found.items())[:MOST])


def resolve_host_path(given: str, workdir: str) -> str:
    """Return where ranks that start in a directory look for a path."""
    return given if given.startswith("~") else posixpath.join(workdir, given)


def _given(args: tuple[str, ...]) -> Iterator[tuple[str, bool, str]]:
    """Yield values with their option, and whether it is right before: `--data d e`, `data.root=d`."""
    option, is_first = "", False
    for word in args:
        name, equals, value = word.partition("=")
        if equals and not _PATH.fullmatch(name):
            yield from ((name, True, each) for each in _values(value))
        elif word.startswith("-") or _KEY.fullmatch(word):
            option, is_first = word.strip("-") and word, True
        else:
            yield from ((option, is_first, each) for each in _values(word))
            is_first = False


def _values(text: str) -> list[str]:
    """Return the values of one argument, which may be a list."""
    if len(text) > MOST * _LONGEST:
        return []
    values = [each for each in _LIST.split(text) if each]
    return [
        each for each in (values if all(map(_PATH.fullmatch, values)) else [text]) if len(each) <= _LONGEST
    ]


def _read_by(option: str) -> list[str] | None:
    """Return the words of an option by whose name ranks may read its path, None where they write it."""
    words = _WORD.findall(option.replace("init_args", ""))
    if any(map(_WRITTEN.fullmatch, words)):
        return None
    return None if any(map(_BY_RUN.fullmatch, words)) and not any(map(_READ.fullmatch, words)) else words


def _says(words: list[str]) -> bool:
    """Whether the name of an option says that ranks read its path."""
    return any(_READ.fullmatch(word) or _MAY_READ.fullmatch(word) for word in words)


def _is_required(path: str, words: list[str], *, positional: bool, joins: bool) -> bool:
    """Whether a launch needs a file: no library has it by name (`yolov8n.pt`), and no other directory."""
    if not _IS_FILE.fullmatch(path) or "name" in words:
        return False
    if "dataset" in words and _OF_HUB.fullmatch(path):
        return False
    is_rooted, is_bare = path.startswith(("/", "~", "./", "../")), "/" not in path
    if _IS_SETTINGS.fullmatch(path):
        return not is_bare or positional or any(map(_NAMES_SETTINGS.fullmatch, words))
    says = positional or _says(words)
    return says and (is_rooted or not (joins or (is_bare and _IS_MODEL.fullmatch(path))))
