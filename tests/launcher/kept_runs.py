"""Runs as `gpulaunch run` keeps them, with the log of a rank that ran out of memory."""

from pathlib import Path

from click.testing import CliRunner, Result

from launcher.cli import cli

RUN = "paper-20260301-100000-ab12cd"
OOM = """Traceback (most recent call last):
  File "train.py", line 7, in <module>
RuntimeError: CUDA out of memory. Tried
"""


def gpulaunch(*argv: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, argv, standalone_mode=False, input=stdin)


def a_run(directory: Path, name: str = "paper-20260301-100000-ab12cd") -> Path:
    (directory / name / "titan").mkdir(parents=True)
    (directory / name / "titan" / "rank-3.log").write_text(OOM)
    (directory / name / "titan" / "launcher.log").write_text("launching\n")
    return directory
