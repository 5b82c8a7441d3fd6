"""`via:`: what hosts.yaml may say, how a host is then reached, and what its failures are called."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher import cli
from launcher.config.inventory import HostEntry, Inventory
from launcher.config.inventory_reader import load_inventory
from launcher.config.via_options import Via
from launcher.errors import (
    BadInput,
    CommandMissing,
    ConfigError,
    ContainerNotRunning,
    ContainersRefused,
    ContainerStopped,
    HostError,
    PrefixFailed,
)
from launcher.exit_codes import ExitCode
from launcher.slurm.jobs import Allocation
from launcher.slurm.srun_step import StepHosts, build_node_entries
from launcher.transports.prefix import read_prefix
from launcher.transports.ssh.endpoint import build_endpoint
from launcher.transports.ssh.ssh_command import format_login
from tests.launcher.sshd import Sshd
from tests.launcher.via_hosts import PIPE, inventory_of, opened, piped

CONTAINER = "0" * 63 + "1"


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


@pytest.mark.parametrize("words", [("env", "A=1"), ("sh", "-c", "{command}")])
def test_rsync_logs_in_to_no_host_behind_a_prefix(words: tuple[str, ...]) -> None:
    with opened(Via("command", words=words)) as connection:
        assert format_login(connection) == "pod-0"


@pytest.mark.parametrize(
    ("written", "expected_words"),
    [
        ("dokcer", 'did you mean "docker"?'),
        ("docker train", "did you mean {docker: train}?"),
        ("podman:train", "did you mean {podman: train}?"),
        ("docker exec -it train", "did you mean {docker: train}?"),
        ("kubectl exec -n ns pod -c c --", "did you mean {kubectl: NAME}?"),
        ({"user": "ada"}, "user: goes with docker or podman, as in {docker: NAME, user: VALUE}"),
        ({"podmann": "x"}, 'did you mean "podman"?'),
        ("apptainer", "apptainer is a list of words: via: [apptainer, exec, --nv, IMAGE.sif]"),
        ({"singularity": "x.sif"}, "via: [singularity, exec, --nv, IMAGE.sif]"),
        ("{docker}", "expected docker, podman, a mapping"),
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
    ends = {name: build_endpoint(entry, inventory, ssh_config) for name, entry in inventory.hosts.items()}
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
    assert read_prefix(via, "pod-0").argv(command) == argv


def test_the_opening_tells_what_a_command_does_to_bytes() -> None:
    mark = f"--mark={os.getpid()}"
    with opened(piped("--")) as way:
        assert way.run(("echo", "x")).stdout == b"x\n"
    with opened(piped("--join", "--", "{command}")) as way:
        assert way.run(("printf", "%s", "a  'b'")).stdout == b"a  'b'"
    for options, expected_words in {
        ("--tty", mark, "--"): "changes the bytes",
        ("--join", "--"): "hands its words to a shell",
        ("--deaf", "--"): "passes no input on",
        ("--refuse", "--"): 'pods "trainer-0" not found',
    }.items():
        with pytest.raises(PrefixFailed) as failed:
            opened(piped(*options))
        assert expected_words in failed.value.message, options
    for _ in range(100):
        argvs = [_argv(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
        if not any(mark.encode() in argv for argv in argvs):
            break
        time.sleep(0.05)
    else:
        pytest.fail("a command with a terminal between was left running")


def _argv(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_command_that_is_not_installed_is_expected_words_as_that(config_home: Path) -> None:
    del config_home
    with pytest.raises(CommandMissing, match="cannot start no-such-kubectl"):
        opened(Via("command", words=("no-such-kubectl", "exec", "--")))


def test_a_host_without_sudo_is_told_from_one_without_docker(programs: Callable[[str, str], None]) -> None:
    programs("sudo", says("bash: line 1: sudo: command not found", 127))
    with pytest.raises(CommandMissing) as failed:
        opened(Via("docker", "train", (("sudo", "true"),)))
    assert failed.value.fix.startswith("install sudo, or add it to the PATH")
    assert "without `sudo: true` docker is started" in failed.value.fix


def says(text: str, status: int) -> str:
    """Return the shell lines of a program that ends so."""
    return f"echo {shlex.quote(text)} >&2; exit {status}"


SOCKET = "unix:///var/run/docker.sock"
ABSENT = (ContainerStopped, "there is no container train", "running now: other")
REFUSED = (ContainersRefused, "is not permitted", "sudo: true")
DOCKER_SAYS: list[tuple[str, type[HostError], str, str]] = [
    # what each printed, to stderr, with its exit status: docker 28.2, podman 4.3, sudo 1.9
    (says("Error response from daemon: No such container: train", 1), *ABSENT),
    (says("Error: inspecting object: no such container train", 125), *ABSENT),
    (says(f"permission denied while trying to connect to the Docker daemon socket at {SOCKET}", 1), *REFUSED),
    (says("sudo: a password is required", 1), *REFUSED),
    (says(f"Cannot connect to the Docker daemon at {SOCKET}. Is the docker daemon running?", 1),
     ContainersRefused, "no service to talk to", "systemctl status docker"),
    (says("sh: 1: docker: not found", 127), CommandMissing, "docker cannot be started", "install docker"),
    (f"echo {CONTAINER} exited 137 true", ContainerStopped,
     "not running: exited with status 137, signal 9, out of memory", "docker start train"),
    (f"echo {CONTAINER} paused 0 false", ContainerNotRunning, "not running: paused", "docker unpause train"),
    ("echo hello", PrefixFailed, "said nothing of train's state: hello", ""),
    ("echo oops >&2; exit 3", PrefixFailed, "ended with status 3: oops", "`docker ps` has to work on n1"),
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
        ("The connection to the server localhost:8080 was refused - did you specify", ContainersRefused),
        ("Error in configuration: context was not found for specified context: nope", ContainersRefused),
        ("error: You must be logged in to the server (Unauthorized)", ContainersRefused),
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


def test_a_via_of_another_source_is_checked_too() -> None:
    for via in (Via("docker", "--privileged"), Via("srun9", "x"), Via("command", words=("./x",))):
        with pytest.raises(ConfigError):
            build_endpoint(HostEntry("n1", via=via), Inventory())


@pytest.mark.slow
def test_sshs_own_client_carries_every_argument_where_its_command_is_one_word(tmp_path: Path) -> None:
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
    assert cli.run_command_line(("preflight", "pod-0", "--json")) in (ExitCode.OK, ExitCode.NEGATIVE)
    document = json.loads(capfd.readouterr().out)
    assert document["hosts"]["pod-0"]["reached"], document
    inventory_of(config_home, **{"pod-0": {"via": words, "python": "/no/such/python"}})
    assert cli.run_command_line(("preflight", "pod-0")) == ExitCode.NEGATIVE
    said = capfd.readouterr().out
    assert "HOST008 on pod-0: /no/such/python cannot be started" in said


def test_a_node_of_a_slurm_job_is_not_entered_by_a_command_that_outlives_the_job(tmp_path: Path) -> None:
    inventory = inventory_of(tmp_path, n1={"via": "docker"})
    hosts = StepHosts(Allocation("17", ("n1",), {}), "python3")
    with pytest.raises(BadInput, match="cannot be used by srun inside a Slurm job"):
        build_node_entries(("n1",), inventory, hosts, workdir="/")
