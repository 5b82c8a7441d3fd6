"""`via:`: what hosts.yaml may say, how a host is then reached, and what its failures are called."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher import cli
from launcher.config.inventory import HostEntry, Inventory, load_inventory
from launcher.config.via_options import Via
from launcher.errors import (
    BadInput,
    CommandMissing,
    CommandNotAllowed,
    ConfigError,
    ContainerNotRunning,
    ContainersRefused,
    ContainerStopped,
    HostError,
    PrefixFailed,
)
from launcher.exit_codes import ExitCode
from launcher.slurm.allocation import Allocation
from launcher.slurm.step_hosts import StepHosts, node_entries
from launcher.transports import open_endpoint
from launcher.transports.base import Connection, Endpoint, OpenOptions
from launcher.transports.command_consent import Consent, allowed_commands, is_users_own
from launcher.transports.prefix import prefix_of
from launcher.transports.ssh.endpoint import endpoint_for
from tests.launcher.sshd import Sshd

PIPE = str(Path(__file__).with_name("pipe_exec.py"))
LOCAL = Endpoint("localhost", "local", "")
CONTAINER = "0" * 63 + "1"
NOBODY = OpenOptions()


def inventory_of(folder: Path, **hosts: Any) -> Inventory:
    """Return the inventory of a hosts.yaml in a folder."""
    path = folder / "hosts.yaml"
    path.write_text(yaml.safe_dump({"hosts": hosts}))
    return load_inventory(path)


def opened(via: Via, *, own: bool = True, options: OpenOptions = NOBODY, name: str = "pod-0") -> Connection:
    """Open a host whose `via:` runs locally."""
    endpoint = Endpoint(name, "prefix", name, via=via, base=LOCAL, own_command=own)
    return open_endpoint(endpoint, options)


def piped(*options: str) -> Via:
    """Return the `via:` of the stand-in for kubectl and its kind."""
    return Via("command", words=(sys.executable, "-IS", PIPE, *options))


@pytest.fixture
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty configuration directory of the user's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "gpulaunch"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return what puts a program of these shell lines first on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def put(name: str, lines: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)

    return put


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("docker", Via("docker")),
        ({"podman": "train"}, Via("podman", "train")),
        (
            {"docker": "t-{host}", "user": "1000:1000", "sudo": True},
            Via("docker", "t-{host}", (("sudo", "true"), ("user", "1000:1000"))),
        ),
        ({"kubectl": "w-0", "namespace": "ml"}, Via("kubectl", "w-0", (("namespace", "ml"),))),
        (
            ["tsh", "ssh", "ada@{host}", "{command}"],
            Via("command", words=("tsh", "ssh", "ada@{host}", "{command}")),
        ),
    ],
)
def test_what_hosts_yaml_may_say(tmp_path: Path, written: object, expected: Via) -> None:
    found = inventory_of(tmp_path, n1={"via": written}).hosts["n1"].via
    assert found is not None
    assert (found.kind, found.name, set(found.options), found.words) == (
        expected.kind,
        expected.name,
        set(expected.options),
        expected.words,
    )


@pytest.mark.parametrize(
    ("written", "expected_words"),
    [
        ("dokcer", "expected docker, podman, a mapping"),
        ({"docker": "-v"}, "'-v' is not a name of a container"),
        ({"docker": "a b"}, "'a b' is not a name"),
        ({"docker": "$(id)"}, "is not a name"),
        ({"docker": "x", "podman": "y"}, "one of docker, podman, kubectl as a key"),
        ({"docker": "x", "usr": "ada"}, 'usr is not an option of docker; did you mean "user"?'),
        ({"docker": "x", "user": "--privileged"}, "user: '--privileged' does not fit"),
        ({"docker": ["x"]}, "is not a word"),
        ({"kubectl": "w-0", "context": "--kubeconfig=x"}, "context: "),
        ("kubectl", "expected docker, podman, a mapping"),
        ("srun", "the nodes of a Slurm job need no via:"),
        ({"srun": "17"}, "the nodes of a Slurm job need no via:"),
        ([], "expected 1 to 64 words"),
        (["tsh", "x" * 2001], "at most 2000 characters"),
        (["./reach", "{host}"], "depends on the working directory"),
        (["bin/reach"], "depends on the working directory"),
        (["/proc/self/cwd/reach"], "depends on the working directory"),
        (["~/../reach"], "depends on the working directory"),
        (["{host}"], "is not a program"),
        (["tsh", "{hots}"], '{hots} is not filled in; did you mean "host"?'),
        (["tsh", "a\u202eb"], "cannot be shown"),
    ],
)  # fmt: skip
def test_what_hosts_yaml_may_not_say(tmp_path: Path, written: object, expected_words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        inventory_of(tmp_path, n1={"via": written})
    assert expected_words in refused.value.message
    assert "hosts.n1.via" in refused.value.message


def test_where_a_command_runs(tmp_path: Path) -> None:
    ssh_config = tmp_path / "ssh_config"
    ssh_config.write_text("")
    inventory = inventory_of(
        tmp_path,
        n1={"via": "docker", "address": "10.0.0.1"},
        pod={"via": {"kubectl": "w-0"}},
        far={"via": {"kubectl": "w-0"}, "address": "login"},
        localhost={"via": {"podman": "train"}},
    )
    ends = {name: endpoint_for(entry, inventory, ssh_config) for name, entry in inventory.hosts.items()}
    bases = {name: (end.base.transport, end.base.address) for name, end in ends.items() if end.base}
    assert bases == {
        "n1": ("ssh", "10.0.0.1"),
        "pod": ("local", ""),
        "far": ("ssh", "login"),
        "localhost": ("local", ""),
    }
    assert not inventory.hosts[
        "localhost"
    ].is_local  # its files and its variables are not those of the container


def test_a_host_may_leave_the_via_of_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("defaults: {via: docker}\nhosts: {a: {via: none}, b: {}}\n")
    hosts = load_inventory(path).hosts
    assert (hosts["a"].via, hosts["b"].via) == (None, Via("docker"))


@pytest.mark.parametrize(
    ("via", "command", "argv"),
    [
        (Via("kubectl", "w-0", (("namespace", "ml"),)), ("id",),
         ("kubectl", "exec", "-i", "--namespace=ml", "w-0", "--", "sh", "-c", 'exec "$0" "$@"', "id")),
        (Via("kubectl", "{host}"), ("~/bin/p", "x"),
         ("kubectl", "exec", "-i", "pod-0", "--", "sh", "-c", 'exec "$HOME/$0" "$@"', "bin/p", "x")),
        (Via("command", words=("gcloud", "ssh", "{host}", "--command={command}")), ("id", "{host}"),
         ("gcloud", "ssh", "pod-0", "--command=sh -c 'exec \"$0\" \"$@\"' id '{host}'")),
    ],
)  # fmt: skip
def test_the_argv_of_a_prefix(via: Via, command: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert prefix_of(via, "pod-0").argv(command) == argv


def test_the_opening_tells_what_a_command_does_to_bytes() -> None:
    with opened(piped("--")) as way:
        assert way.run(("echo", "x")).stdout == b"x\n"
    with opened(piped("--join", "--", "{command}")) as way:
        assert way.run(("printf", "%s", "a  'b'")).stdout == b"a  'b'"
    for options, expected_words in {
        ("--tty", "--"): "changes the bytes",
        ("--join", "--"): "hands its words to a shell",
        ("--deaf", "--"): "passes no input on",
        ("--refuse", "--"): 'pods "trainer-0" not found',
    }.items():
        with pytest.raises(PrefixFailed) as failed:
            opened(piped(*options))
        assert expected_words in failed.value.message, options


def test_a_command_that_is_not_installed_is_expected_words_as_that(config_home: Path) -> None:
    del config_home
    with pytest.raises(CommandMissing, match="cannot start no-such-kubectl"):
        opened(Via("command", words=("no-such-kubectl", "exec", "--")))


def says(text: str, status: int) -> str:
    """Return the shell lines of a program that ends so."""
    return f"echo {shlex.quote(text)} >&2; exit {status}"


SOCKET = "unix:///var/run/docker.sock"
ABSENT = (ContainerStopped, "there is no container train", "Running now: other")
REFUSED = (ContainersRefused, "is not permitted", "sudo: true")
DOCKER_SAYS: list[tuple[str, type[HostError], str, str]] = [
    # what each printed, to stderr, with its exit status: docker 28.2, podman 4.3, sudo 1.9
    (says("Error response from daemon: No such container: train", 1), *ABSENT),
    (says("Error: inspecting object: no such container train", 125), *ABSENT),
    (says(f"permission denied while trying to connect to the Docker daemon socket at {SOCKET}", 1), *REFUSED),
    (says("sudo: a password is required", 1), *REFUSED),
    (says(f"Cannot connect to the Docker daemon at {SOCKET}. Is the docker daemon running?", 1),
     ContainersRefused, "no service to talk to", "systemctl status docker"),
    (says("sh: 1: docker: not found", 127), CommandMissing, "docker cannot be started", "Install docker"),
    (f"echo {CONTAINER} exited 137 true", ContainerStopped,
     "not running: exited with status 137, signal 9, out of memory", "docker start train"),
    (f"echo {CONTAINER} paused 0 false", ContainerNotRunning, "not running: paused", "docker unpause train"),
    ("echo hello", PrefixFailed, "said nothing of train's state: hello", ""),
    ("echo oops >&2; exit 3", PrefixFailed, "ended with status 3: oops", ""),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "kind", "expected_words", "fix"), DOCKER_SAYS)
def test_a_container_that_cannot_be_entered_is_expected_words_with_what_helps(
    programs: Callable[[str, str], None], lines: str, kind: type[HostError], expected_words: str, fix: str
) -> None:
    programs("docker", f'[ "$1" = ps ] && echo other && exit\n{lines}')
    with pytest.raises(HostError) as failed:
        opened(Via("docker", "train"), name="n1")
    assert type(failed.value) is kind
    assert expected_words in failed.value.message
    assert fix in failed.value.fix


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('Error from server (NotFound): pods "w-0" not found', ContainerStopped),
        ("error: cannot exec into a container in a completed pod; current phase is Failed", ContainerStopped),
        ('Error from server (Forbidden): pods "w-0" is forbidden: User "a" cannot create', ContainersRefused),
        ('error: unable to upgrade connection: container not found ("torch")', PrefixFailed),
    ],
)  # fmt: skip
def test_a_pod_that_has_ended_is_told_from_one_that_may_come(
    programs: Callable[[str, str], None], text: str, kind: type[HostError]
) -> None:
    programs("kubectl", says(text, 1))
    with pytest.raises(HostError) as failed:
        opened(Via("kubectl", "w-0"))
    assert type(failed.value) is kind
    assert text in failed.value.message


def test_the_only_container_needs_no_name(programs: Callable[[str, str], None]) -> None:
    enter = f'[ "$1" = container ] && echo noise && echo {CONTAINER} running 0 false && exit\n'
    enter += f'[ "$1 $2 $3" = "exec -i {CONTAINER}" ] && shift 3 && exec "$@"'
    programs("docker", f'[ "$1" = ps ] && echo train && exit\n{enter}')
    with opened(Via("docker"), name="n1") as way:
        assert way.run(("echo", "in")).stdout == b"in\n"
    for names, expected_words in {"a\\nb": "2 containers run: a, b", "": "no container runs"}.items():
        programs("docker", f"printf '{names}\\n'")
        with pytest.raises(ContainerNotRunning, match=expected_words):
            opened(Via("docker"), name="n1")


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
        assert cli.execute(words) != ExitCode.OK
        said = capfd.readouterr()
        assert shlex.join(command) in " ".join((said.out + said.err).split()), words
    assert cli.execute(("preflight", "n1", "-i", "hosts.yaml")) == ExitCode.NEGATIVE
    assert cli.execute(("preflight", "n2")) == ExitCode.NEGATIVE
    output = capfd.readouterr().out
    assert "HOST017 on n2" in output
    assert "on n2.invalid, not allowed yet" in output
    assert not (tmp_path / "PWNED").exists()


def test_a_confirmed_command_is_not_asked_about_again_and_another_is(
    tmp_path: Path, config_home: Path
) -> None:
    asked: list[str] = []

    def yes(lines: tuple[str, ...], question: str) -> str:
        asked.append(" ".join((*lines, question)))
        return "yes\n"

    log = tmp_path / "log"
    via = piped("--log", str(log), "--")
    options = OpenOptions(confirm=yes)
    for name in ("pod-0", "pod-1"):
        opened(via, own=False, options=options, name=name).close()
    assert len(asked) == 1
    assert shlex.join(via.words) in asked[0]
    assert allowed_commands() == {("local", via.words)}
    assert (config_home / "allowed-commands").stat().st_mode & 0o077 == 0
    opened(via, own=False).close()  # without a terminal, and without a question
    with pytest.raises(CommandNotAllowed):
        opened(piped("--log", str(log), "--tty", "--"), own=False)
    assert len(log.read_text().splitlines()) == 3


def test_words_that_may_run_on_hosts_may_not_run_locally(config_home: Path) -> None:
    del config_home
    consent = Consent(OpenOptions(confirm=lambda _lines, _question: "yes"))
    words = Via("command", words=("apptainer", "exec", "instance://train"))
    consent.demand(Endpoint("n1", "prefix", "n1", via=words, base=Endpoint("n1", "ssh", "10.0.0.1")))
    assert allowed_commands() == {("host", words.words)}
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
    assert allowed_commands() == {("local", ("tsh",))}
    assert (is_users_own(own), is_users_own(project), is_users_own(None)) == (True, False, False)
    for path in (allowed, own):
        path.chmod(0o666)
    assert allowed_commands() == frozenset()
    assert not is_users_own(own)
    allowed.chmod(0o600)
    for text in (
        '{"runs": "local", "words": ["tsh"]}\nnot JSON\n',
        '["tsh"]\n',
        '{"words": "tsh"}\n',
        "[" * 9999,
    ):
        allowed.write_text(text)
        assert allowed_commands() == frozenset()


def test_the_users_own_file_needs_no_consent(tmp_path: Path, config_home: Path) -> None:
    inventory = inventory_of(config_home, n1={"via": [sys.executable, "-IS", PIPE, "--"]})
    own = endpoint_for(inventory.hosts["n1"], inventory)
    assert own.own_command
    open_endpoint(own, NOBODY).close()
    other = inventory_of(tmp_path, n1={"via": ["true"]})
    assert not endpoint_for(other.hosts["n1"], other).own_command


def test_a_via_of_another_source_is_checked_too() -> None:
    for via in (Via("docker", "--privileged"), Via("srun9", "x"), Via("command", words=("./x",))):
        with pytest.raises(ConfigError):
            endpoint_for(HostEntry("n1", via=via), Inventory())


def test_sshs_own_client_carries_every_argument_where_its_command_is_one_word(tmp_path: Path) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed")
    with Sshd.up(tmp_path / "sshd") as sshd:
        ssh = ["ssh", "-T", "-F", "none", "-i", str(sshd.identity), "-p", str(sshd.port)]
        ssh += ["-o", f"UserKnownHostsFile={sshd.known_hosts}", "-o", "BatchMode=yes", "127.0.0.1"]
        arguments = ("a  b", "$HOME `id`", "'\"\\", "\n", "")
        with opened(Via("command", words=(*ssh, "{command}"))) as way:
            done = way.run(("printf", r"%s\0", *arguments))
        assert done.stdout.decode().split("\0")[:-1] == list(arguments)
        with pytest.raises(PrefixFailed, match="hands its words to a shell"):
            opened(Via("command", words=tuple(ssh)))


def test_a_preflight_through_a_command_judges_what_it_reaches(
    tmp_path: Path, config_home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-IS", PIPE, "--"]
    inventory_of(config_home, **{"pod-0": {"via": words, "python": sys.executable}})
    assert cli.execute(("preflight", "pod-0", "--json")) in (ExitCode.OK, ExitCode.NEGATIVE)
    document = json.loads(capfd.readouterr().out)
    assert document["hosts"]["pod-0"]["reached"], document
    inventory_of(config_home, **{"pod-0": {"via": words, "python": "/no/such/python"}})
    assert cli.execute(("preflight", "pod-0")) == ExitCode.NEGATIVE
    said = capfd.readouterr().out
    assert "HOST008 on pod-0: /no/such/python cannot be started" in said


def test_a_node_of_a_slurm_job_is_not_entered_by_a_command_that_outlives_the_job(tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path, n1={"via": "docker"})
    hosts = StepHosts(Allocation("17", ("n1",), {}), "python3")
    with pytest.raises(BadInput, match="cannot be used by srun inside a Slurm job"):
        node_entries(("n1",), inventory, hosts, workdir="/")
