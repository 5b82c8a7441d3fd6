"""A command of a message reaches the hosts by the options of the command that printed it."""

import json
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.commands import ps
from launcher.commands._answer import Answer, encode_error
from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import HostOptions
from launcher.config.host_access_args import (
    RUN_COMMANDS,
    complete_commands,
    read_access_words,
    read_run_words,
)
from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.remote.agent import GatherResult
from launcher.runs.search import SearchResult
from preflight.job import Job
from tests.launcher.found_runs import A, found, node_run
from tests.preflight.golden_cases import host


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("preflight a", ()),
        ("run -c x -i hosts.yaml -- -i no", ("-i", "hosts.yaml")),
        ("ps --inventory=/a/h.yaml --identity-file k.pem", ("-i", "/a/h.yaml", "--identity-file", "k.pem")),
        ("ps -i", ("-i", "")),
        ("ps -ih.yaml a", ("-i", "h.yaml")),
    ],
)
def test_the_options_that_reach_hosts_are_read_from_a_command_line(line: str, words: tuple[str, ...]) -> None:
    assert read_access_words(line.split()) == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpulaunch clean-zombies a; wait", "gpulaunch clean-zombies -i h clean a; wait"),
        ("(gpulaunch init --hosts a looks)", "(gpulaunch init -i h --hosts a looks)"),
        ("gpulaunch preflight -i h a", None),
        ("gpulaunch preflight HOST names it", None),
        ("gpulaunch preflight --from FILE reads it", None),
        ("gpulaunch init writes one", "gpulaunch init -i h writes one"),
        ("gpulaunch run --wait 2h", None),
    ],
)
def test_commands_about_hosts_get_them_once(text: str, expected: str | None) -> None:
    completed = complete_commands(text, ("-i", "h"))
    assert completed == (expected.replace(" clean a", " a") if expected else text)
    assert complete_commands(completed, ("-i", "h")) == completed
    assert complete_commands(text, ()) == text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("stop r -i h --hosts a,b --hosts=c[1]", ("-i", "h", "--hosts", "a,b", "--hosts", "'c[1]'")),
        ("logs --identity-file k.pem r", ("--identity-file", "k.pem")),
        ("run -c x --hosts a -i h", ()),  # a launch keeps how it reached its hosts
        ("", ()),
    ],
)
def test_a_run_is_found_again_by_the_options_of_a_command_about_it(line: str, words: tuple[str, ...]) -> None:
    assert read_run_words(line.split()) == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Come back with: gpulaunch attach r1", "Come back with: gpulaunch attach --hosts a r1"),
        ("gpulaunch fetch r1 --path PATH", "gpulaunch fetch --hosts a r1 --path PATH"),
        ("gpulaunch report r1 shows it; gpulaunch ps", None),
        ("gpulaunch fetch RUN brings one", None),
        ("gpulaunch attach --hosts a r1", None),
    ],
)
def test_commands_about_a_run_get_them_once(text: str, expected: str | None) -> None:
    assert complete_commands(text, ("--hosts", "a"), RUN_COMMANDS) == (expected or text)
    assert complete_commands(text, (), RUN_COMMANDS) == text


def test_an_answer_has_them_in_lines_and_in_documents(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer("x/1", as_json=False)
    answer.words = ("-i", "h.yaml", "--hosts", "a")
    error = HostError("a", "gone", "gpulaunch preflight a, then gpulaunch stop r1")
    answer.say(error.fix)
    completed = "gpulaunch preflight -i h.yaml a, then gpulaunch stop -i h.yaml --hosts a r1"
    assert capsys.readouterr().out == f"{completed}\n"
    document = encode_error(error, answer.words)
    assert document is not None
    assert document["fix"] == completed


def test_ps_completes_what_it_says_of_a_lost_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.yaml").write_text("hosts: {a: {via: docker}}")
    lost = found((A, [node_run("r1", alive=False)]))
    monkeypatch.setattr(ps, "search_all", lambda *_, **__: SearchResult(lost, {}, {}, {}))
    assert run_command_line(["ps", "-i", "h.yaml"]) == 0
    said = capsys.readouterr().out
    assert "; gpulaunch clean-zombies -i h.yaml a shows what is left" in said


PRIVATE, PUBLIC = "-----BEGIN OPENSSH PRIVATE KEY-----\n", "ssh-ed25519 AAAA ada@pc\n"


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o600, PRIVATE, ""),
        (0o640, PRIVATE, "keys/k.pem has mode 640"),
        (0o604, PRIVATE, "chmod 600 keys/k.pem"),
        (0o644, PUBLIC, ""),  # of a key that the agent holds
    ],
)
def test_a_key_that_ssh_would_refuse_is_named_once_with_its_fix(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mode: int,
    text: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys").mkdir()
    key = tmp_path / "keys" / "k.pem"
    key.write_text(text)
    key.chmod(mode)
    (tmp_path / "hosts.yaml").write_text(
        "defaults: {identity_file: keys/k.pem}\nhosts: {a: {}, localhost: {python: /nonexistent/python}}\n"
    )
    assert run_command_line(["ps", "localhost", "--identity-file", str(key)]) == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if "mode" in line]
    assert len(lines) == bool(said)
    assert said in "".join(lines)


@pytest.mark.parametrize(
    ("word", "keys"), [("plain", []), ("keyed", ["k.pem"]), ("behind", ["k.pem"]), ("other", [])]
)
def test_a_key_is_named_only_with_a_host_that_it_opens(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    word: str,
    keys: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("k.pem", "unused.pem"):
        (tmp_path / name).write_text(PRIVATE)
        (tmp_path / name).chmod(0o644)
    (tmp_path / "hosts.yaml").write_text(
        "hosts:\n  plain: {}\n  keyed: {identity_file: k.pem}\n  behind: {jump: keyed}\n"
        "  unused: {identity_file: unused.pem}\n"
    )
    ways = open_host_access(HostOptions(None, accept_new_host_keys=False, parallel=1, identity_file=None))
    ways.resolve((word,))
    ways.resolve((word, "plain"))
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == keys


def test_a_key_that_is_absent_is_named_though_another_may_open_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.pub").write_text(PUBLIC)  # the agent has its private key
    (tmp_path / "hosts.yaml").write_text(
        "defaults: {identity_file: gone.pem}\nhosts: {a: {}, b: {}, c: {identity_file: agent}}\n"
    )
    access = open_host_access(HostOptions(None, accept_new_host_keys=False, parallel=1, identity_file=None))
    access.resolve(("a", "b", "c"))
    access.resolve(("a",))
    expected = (
        "identity_file gone.pem does not exist: only other keys are offered; correct it in hosts.yaml\n"
    )
    assert capsys.readouterr().err == expected


def test_findings_name_the_commands_with_them() -> None:
    facts = host({"python.packages": {}}, "a")
    options = PreflightOptions(access_words=("--identity-file", "k"))
    result = evaluate_facts([HostEntry("a")], GatherResult({"a": facts}, {}), Job(), options=options)
    (finding,) = (each for each in result.findings if each.code == "ENV002")
    assert "gpulaunch init --identity-file k --hosts a looks for an environment" in finding.fix


def test_errors_name_the_commands_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.yaml").write_text("hosts: {localhost: {python: /nonexistent/python}}\n")
    wanted = "gpulaunch init -i h.yaml --hosts localhost looks for it"
    assert run_command_line(["ps", "localhost", "-i", str(tmp_path / "h.yaml")]) == 3
    assert wanted in capsys.readouterr().err
    assert run_command_line(["clean-zombies", "localhost", "-i", "h.yaml"]) == 3
    assert wanted in capsys.readouterr().out
    assert run_command_line(["stacks", "last", "--hosts", "localhost", "--json", "-i", "h.yaml"]) == 3
    shown = capsys.readouterr()
    assert wanted in shown.err
    assert wanted in json.loads(shown.out)["error"]["fix"]


@pytest.mark.parametrize(("words", "said"), [((), True), (("localhost",), False)])
def test_clean_zombies_of_this_machine_alone_names_the_others(
    words: tuple[str, ...],
    said: bool,  # noqa: FBT001 - of the table
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text("hosts: {titan: {}}\n")
    monkeypatch.setattr("launcher.commands.clean_zombies.clean_hosts", lambda *_: 0)
    assert run_command_line(["clean-zombies", *words]) == 0
    assert ("gpulaunch clean-zombies all" in capsys.readouterr().err) == said
