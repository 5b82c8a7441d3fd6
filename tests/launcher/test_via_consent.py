"""A project's `via:` command runs only after a yes, and never by what others could have written."""

import shlex
import sys
from pathlib import Path

import pytest

from launcher import cli
from launcher.config.via_options import Via
from launcher.errors import CommandNotAllowed
from launcher.exit_codes import ExitCode
from launcher.transports import open_endpoint
from launcher.transports.base import Endpoint, OpenOptions
from launcher.transports.command_consent import Consent, is_users_own, read_allowed_commands
from launcher.transports.ssh.endpoint import build_endpoint
from tests.launcher.via_hosts import LOCAL, NOBODY, PIPE, inventory_of, opened, piped


def test_a_projects_command_does_not_run_unless_it_was_allowed(
    tmp_path: Path, config_home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    del config_home
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    command = ["sh", "-c", f"touch {tmp_path}/PWNED"]
    (project / "x.py").write_text("")
    inventory_of(project, n1={"via": command}, n2={"via": command, "address": "n2.invalid"})
    for words in (
        ("preflight", "n1"),
        ("run", "--hosts", "n1", "--dry-run", "x.py"),
        ("ps", "--hosts", "n1"),
    ):
        assert cli.run_command_line(words) != ExitCode.OK
        said = capfd.readouterr()
        assert shlex.join(command) in " ".join((said.out + said.err).split()), words
    assert cli.run_command_line(("preflight", "n1", "-i", "hosts.yaml")) == ExitCode.NEGATIVE
    assert cli.run_command_line(("preflight", "n2")) == ExitCode.NEGATIVE
    output = capfd.readouterr().out
    assert "HOST017 on n2" in output
    assert "on n2.invalid, not allowed yet" in output
    assert not (tmp_path / "PWNED").exists()


def test_a_confirmed_command_is_not_asked_about_again_and_another_is(
    tmp_path: Path, config_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []

    def yes(lines: tuple[str, ...], question: str) -> str:
        questions.append(" ".join((*lines, question)))
        return "yes\n"

    log = tmp_path / "log"
    via = piped("--log", str(log), "--")
    options = OpenOptions(confirm=yes)
    for name in ("pod-0", "pod-1"):
        opened(via, own=False, options=options, name=name).close()
    assert len(questions) == 1
    assert shlex.join(via.words) in questions[0]
    assert read_allowed_commands() == {("local", via.words, str(Path.cwd()))}
    assert (config_home / "allowed-commands").stat().st_mode & 0o077 == 0
    opened(via, own=False).close()  # without a terminal, and without a question
    with pytest.raises(CommandNotAllowed):
        opened(piped("--log", str(log), "--tty", "--"), own=False)
    monkeypatch.chdir(tmp_path)  # where the same words may be another program
    with pytest.raises(CommandNotAllowed):
        opened(via, own=False)
    assert len(log.read_text().splitlines()) == 3


def test_words_that_may_run_on_hosts_may_not_run_locally(config_home: Path) -> None:
    del config_home
    consent = Consent(OpenOptions(confirm=lambda _lines, _question: "yes"))
    words = Via("command", words=("apptainer", "exec", "instance://train"))
    consent.demand(Endpoint("n1", "prefix", "n1", via=words, base=Endpoint("n1", "ssh", "10.0.0.1")))
    assert read_allowed_commands() == {("host", words.words, "")}
    with pytest.raises(CommandNotAllowed):
        Consent(NOBODY).demand(Endpoint("n1", "prefix", "n1", via=words, base=LOCAL))


@pytest.mark.parametrize("answer", ["no", "", "y", "y\ny\n"])
def test_only_yes_is_a_yes(answer: str, config_home: Path) -> None:
    answers = iter(answer.split("\n"))
    consent = Consent(OpenOptions(confirm=lambda _lines, _question: next(answers, "")))
    endpoint = Endpoint("n1", "prefix", "n1", via=piped("--"), base=LOCAL)
    for _ in range(2):
        with pytest.raises(CommandNotAllowed):
            consent.demand(endpoint)
    assert not (config_home / "allowed-commands").exists()


def test_what_others_could_have_written_allows_nothing(tmp_path: Path, config_home: Path) -> None:
    allowed = config_home / "allowed-commands"
    allowed.write_text('{"runs": "local", "words": ["tsh"]}\n')
    own = config_home / "hosts.yaml"
    own.write_text("hosts: {}\n")
    project = tmp_path / "hosts.yaml"
    project.write_text("hosts: {}\n")
    assert read_allowed_commands() == {("local", ("tsh",), "")}
    assert (is_users_own(own), is_users_own(project), is_users_own(None)) == (True, False, False)
    for path in (allowed, own):
        path.chmod(0o666)
    assert read_allowed_commands() == frozenset()
    assert not is_users_own(own)
    allowed.chmod(0o600)
    for text in (
        '{"runs": "local", "words": ["tsh"]}\nnot JSON\n',
        '["tsh"]\n',
        '{"words": "tsh"}\n',
        "[" * 9999,
    ):
        allowed.write_text(text)
        assert read_allowed_commands() == frozenset()


def test_the_users_own_file_needs_no_consent(tmp_path: Path, config_home: Path) -> None:
    inventory = inventory_of(config_home, n1={"via": [sys.executable, "-IS", PIPE, "--"]})
    own = build_endpoint(inventory.hosts["n1"], inventory)
    assert own.own_command
    open_endpoint(own, NOBODY).close()
    other = inventory_of(tmp_path, n1={"via": ["true"]})
    assert not build_endpoint(other.hosts["n1"], other).own_command
