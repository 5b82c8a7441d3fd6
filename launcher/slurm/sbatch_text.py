"""The text of a batch job: written once, shown by a dry run, and submitted as it is. Pure."""

import re
import shlex
from collections.abc import Iterable, Iterator

from launcher.config.slurm_options import SlurmSpec

WARN_SIGNAL = "USR1"
OUTPUT = "slurm-%j.out"
_JOB_ID = re.compile(r"(?P<job>\d+)(?:;[\w.-]+)?")


def sbatch_text(name: str, spec: SlurmSpec, command: Iterable[str], *, workdir: str) -> str:
    """Return a whole batch script: options, then the one command that it becomes.

    `exec`, so that the warning signal, which Slurm sends to the script's own process, reaches gpulaunch.
    """
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in _options(name, spec, workdir))]
    return "\n".join([*lines, "", f"exec {shlex.join(command)}"]) + "\n"


def _options(name: str, spec: SlurmSpec, workdir: str) -> Iterator[str]:
    theirs = spec.sbatch
    if "job-name" not in theirs:
        yield f"--job-name={_value(name)}"
    yield f"--nodes={spec.all_nodes}"
    yield "--ntasks-per-node=1"
    if spec.gpus_per_node:
        yield f"--gpus-per-node={spec.gpus_per_node}"
    for option in ("time", "partition", "account", "qos"):
        if value := getattr(spec, option):
            yield f"--{option}={value}"
    yield "--requeue" if spec.requeue else "--no-requeue"
    if spec.spare_nodes:
        yield "--no-kill"  # the job continues without a node that fails
    if spec.warn:
        yield f"--signal=B:{WARN_SIGNAL}@{spec.warn:.0f}"
    yield "--open-mode=append"  # a job that is started again writes on
    if "output" not in theirs:
        yield f"--output={OUTPUT}"
    if workdir and "chdir" not in theirs:
        yield f"--chdir={_value(workdir)}"
    for option, value in theirs.items():
        if value != "false":
            yield f"--{option}" if value == "true" else f"--{option}={_value(value)}"


def _value(text: str) -> str:
    """Quote a value where sbatch would cut it at a blank or a comment sign."""
    return text if re.fullmatch(r"[^\s#]*", text) else f'"{text}"'


def read_job_id(text: str) -> str:
    """Return the job id in what `sbatch --parsable` prints (`ID` or `ID;CLUSTER`), "" where there is none."""
    found = _JOB_ID.fullmatch(text.strip().splitlines()[-1].strip()) if text.strip() else None
    return found["job"] if found else ""
