"""Paths that the arguments of a job name and that its ranks may read. Pure: nothing is looked for."""

import posixpath
from collections.abc import Iterator

from preflight import regex as re
from preflight.job import Job

MOST = 20  # of one launch; each is a look at the disk of every host
_FILE = (
    r"\.(?:jsonl?|csv|tsv|txt|parquet|arrow|ya?ml|toml|ini|cfg|npy|npz|h5|hdf5|tar|zst|gz|zip|bin|idx|pt|pth|ckpt"
    r"|safetensors|model|pkl|lmdb)"
)
_PATH = re.compile(rf"(?:~?/|\.{{1,2}}/)[^\s,:*?{{}}\[\]$]+|[\w.+@-]+(?:/[\w.+@-]+)*{_FILE}")
_IS_FILE = re.compile(rf".*{_FILE}")
_SYSTEM = ("/dev/", "/proc/", "/sys/", "/tmp/", "/run/")  # noqa: S108 - of one start of one host
_WORD = re.compile(r"[A-Za-z]+")
# An option by a word of which ranks write to its path, unless another word says that they read it.
_WRITTEN = re.compile(
    r"(?i)out\w*|o|sav(?:e|ing)\w*|log\w*|work\w*|run\w*|exp\w*|te?mp\w*|caches?|results?|dump\w*|prof\w*|write\w*|dest\w*"
    r"|stores?|storage|tb|tensorboard\w*|wandb\w*|project|ckpts?|checkpoints?|snapshots?|traces?|reports?|scratch|record\w*|job\w*"
)
_READ = re.compile(
    r"(?i)resum\w*|load\w*|init\w*|pretrain\w*|restor\w*|from|inputs?|data\w*|configs?|tokenizer\w*"
)


def find_input_paths(job: Job) -> dict[str, str]:
    """Return {path as it is given: option, "" for none} of what the arguments let ranks read, at most 20."""
    found = {
        path: option for option, path in _given(job.args) if _PATH.fullmatch(path) and _is_read(option, path)
    }
    found.pop(job.output, None)
    return dict(list(found.items())[:MOST])


def is_file(path: str) -> bool:
    """Whether a path is that of a file with data or settings, by its ending."""
    return _IS_FILE.fullmatch(path) is not None


def path_on_host(given: str, workdir: str) -> str:
    """Return where ranks that start in a directory look for a path."""
    return given if given.startswith("~") else posixpath.join(workdir, given)


def _given(args: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each value with its option: `--data d e`, `--data=d`, `data.root=d`."""
    option = ""
    for word in args:
        name, equals, value = word.partition("=")
        if equals and not _PATH.fullmatch(name):
            yield name, value
        elif word.startswith("-"):
            option = word
        else:
            yield option, word


def _is_read(option: str, path: str) -> bool:
    words = _WORD.findall(option)
    if path.startswith(_SYSTEM) or path.strip("/.~") == "":
        return False
    return any(map(_READ.fullmatch, words)) or not any(map(_WRITTEN.fullmatch, words))
