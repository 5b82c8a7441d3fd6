"""Whether a launch and a live process write to the same directory, by their words. Pure."""

import posixpath
from collections.abc import Sequence

from preflight import regex as re
from preflight.decide.script_args import read_option_values
from preflight.job import Job

_WORD = re.compile(r"[A-Za-z]+")
# The words of an option that is given a directory in which a run writes what another would write, too.
_WRITES = re.compile(
    r"(?i)(?:\w+-)*(?:(?:out|outputs?|sav(?:e|ing)|dest|export|dump)(?:-\w+)*-(?:dirs?|directory|folder|path|root|prefix)"
    r"|out|output|outdir|savedir|(?:work|run|exp|experiment|default-root)-?dir|dirpath)|o"
)
_NAMES = re.compile(
    r"(?i)(?:\w+-)*(?:name|exp\w*|run|tag|id|suffix|comment|version|task|fold|group)(?:-(?:name|id))?"
)
_MADE_UP = re.compile(
    r"(?i)strftime|datetime\.(?:datetime\.)?(?:now|today|utcnow)|uuid|timestamp|get_outdir|increment_path|mkdtemp"
    r"|hydra\.main|\blightning|pytorch_lightning|ultralytics"
)


def find_shared_output(
    job: Job, workdir: str, argv: Sequence[str], cwd: str, output: str = "", script: str = ""
) -> str | None:
    """Return where a job and a process both write, "" where they do by the same command, else None.

    `workdir` is the host's, `output` what the run config of the process says, `script` the job's text.
    """
    place, words = posixpath.normpath(posixpath.join(workdir, job.subdirectory)), tuple(argv)
    (named, own), (other_named, other) = _read(job.args, place, job.output), _read(words, cwd, output)
    if named != other_named or _MADE_UP.search(script):
        return None
    if shared := next((path for path in own if path in other), ""):
        return shared
    return "" if place == cwd and not own and not other and _is_same(job, words) else None


def _is_same(job: Job, argv: tuple[str, ...]) -> bool:
    """Whether a process has the job's script and arguments, but for a switch of precision."""
    target = job.script or job.module or job.command.executable
    added = {word for words in job.precision_args.values() for word in words}
    for at, word in enumerate(argv if target else ()):
        sent = job.send_script and word.endswith(f"/script/{posixpath.basename(target)}")
        if sent or posixpath.normpath(word) == posixpath.normpath(target):
            rest = [each for each in argv[at + 1 :] if each not in added]
            return rest == [each for each in job.args if each not in added]
    return False


def _read(args: tuple[str, ...], place: str, output: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what arguments call a run, which scripts make a directory of, and where they let it write."""
    options = [  # "output-dir" of `--output_dir` and of `output.dir=`
        ("-".join(_WORD.findall(name)).lower(), value)
        for name, value in read_option_values(args)
        if (name.startswith("-") or f"{name}={value}" in args) and not value.startswith("-")
    ]
    given = [value for name, value in options if _WRITES.fullmatch(name) and "=" not in value]
    return [option for option in options if _NAMES.fullmatch(option[0])], [
        each if "://" in each else posixpath.normpath(posixpath.join(place, each))
        for each in (*given, output)
        if each
    ]
