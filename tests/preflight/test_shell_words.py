"""Commands that a person is to paste hold names of others as words, never as more of a command."""

import shlex
import subprocess
from pathlib import Path

import pytest

from launcher.remote.shell_errors import explain_no_answer
from launcher.transports.ssh.ssh_command import format_ssh_command
from preflight.checks.message_text import quote_path
from preflight.checks.paths import the_paths_can_be_written
from preflight.facts.host import PathFacts
from preflight.facts.missing import Missing
from preflight.job import Job

ODD = ("~/x;touch PWNED", "/x/$(touch PWNED)", "a`touch PWNED`", "x'y; touch PWNED", "-x & touch PWNED", "~")


def test_a_plain_path_is_told_as_it_is() -> None:
    assert quote_path("~/venv/bin/python") == "~/venv/bin/python"
    assert format_ssh_command(("gpu-01",), ("/venv/bin/python", "-V")) == "ssh gpu-01 /venv/bin/python -V"


def test_a_home_in_a_command_for_a_host_is_not_that_of_this_machine() -> None:
    assert format_ssh_command(("gpu-01",), ("~/venv/bin/python", "-V")) == "ssh gpu-01 '~/venv/bin/python -V'"


@pytest.mark.parametrize("path", ODD)
def test_a_path_is_one_word_for_the_shell_here_and_for_the_one_there(tmp_path: Path, path: str) -> None:
    def said(command: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", f"printf '%s|' {command}"],
            cwd=tmp_path,
            env={"HOME": "/h"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    meant = path if path[0] != "~" else f"/h{path[1:]}"
    assert said(quote_path(path)) == f"{meant}|"
    there = shlex.split(format_ssh_command(("gpu-01",), (path, "-V")))[2:]  # ssh joins its words with spaces
    assert said(" ".join(there)) == f"{meant}|-V|"
    assert list(tmp_path.iterdir()) == []


def test_what_to_do_quotes_what_hosts_yaml_says() -> None:
    refusal = explain_no_answer("gpu-01", "~/python;id", 1, stderr=b"")
    assert refusal is not None
    assert refusal.fix.startswith("~/'python;id' -V on gpu-01 must print a version")


def test_a_directory_that_is_to_be_made_is_one_word() -> None:
    unknown = Missing("not asked", "not-asked")
    rest = (unknown, unknown, unknown, unknown, unknown)
    item = PathFacts("workdir", "~/x", "/h/x; id", False, False, *rest)
    (problem,) = the_paths_can_be_written((item,), Job())
    assert problem.fix is not None
    assert problem.fix.startswith("mkdir -p '/h/x; id' ")
