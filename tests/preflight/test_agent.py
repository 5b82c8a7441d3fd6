"""The agent as a real process on this machine."""

import importlib.metadata
import importlib.util
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.supervisor.run_dir import runs_dir
from launcher.remote.program_source import EXIT_OLD_PYTHON, read_agent_source
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.probes import main as agent
from preflight.probes.assembly import assemble_paths
from preflight.probes.fact import Emit, Json, missing
from preflight.probes.nvidia_smi.tree import parse_gpu
from preflight.probes.nvml.gpus import GPU_FIELDS
from preflight.probes.paths import probe
from preflight.probes.ports import bind_error
from preflight.probes.probe_runner import PARTS, Probe, run_probes
from preflight.probes.request import ProbeRequest, read_request
from tests.environment import account_home
from tests.preflight.agent_runs import ask_until, is_given_up, payload, run_agent, streamed


def test_the_probes_fill_every_field_of_the_facts() -> None:
    filled = {name for probe in agent.PROBES for name in probe.facts} | {"host", "agent_version", "probe_ms"}
    filled |= {"reused", "earlier_gpus"}  # are the client's
    assert filled == set(HostFacts.__dataclass_fields__)


def test_nvml_and_saved_files_fill_every_field_of_a_gpu() -> None:
    fields = set(Gpu.__dataclass_fields__) - {"processes_cut"}  # of a printed table, which alone is cut
    assert {name for name, _ in GPU_FIELDS} | {"index"} == fields
    assert set(parse_gpu({}, 0)) == fields


def test_an_ordinary_host_answers_everything_but_gpus() -> None:
    facts = run_agent({"host": "here", "ports": [1], "free_ports": 2, "paths": {"tmp": ""}}).facts
    assert (facts.host, facts.agent_version) == ("here", agent.AGENT_VERSION)
    for name in (
        "identity",
        "python",
        "processes",
        "ports",
        "network",
        "limits",
        "paths",
        "environ",
        "system",
    ):
        value = getattr(facts, name)
        assert not isinstance(value, Missing), f"{name}: {value}"
    assert set(facts.probe_ms) >= {"nvml", "survey", "network", "paths", "python", "host", "all"}


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this machine has an NVIDIA driver")
def test_a_host_without_driver_says_no_library() -> None:
    facts = run_agent({}).facts
    assert isinstance(facts.driver, Missing)
    assert isinstance(facts.gpus, Missing)
    assert (facts.driver.code, facts.gpus.code) == ("no-library", "no-library")


def test_identity_is_this_machine() -> None:
    identity = run_agent({}).facts.identity
    assert not isinstance(identity, Missing)
    assert identity.hostname == socket.gethostname()
    assert identity.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (identity.uid, identity.kernel) == (os.getuid(), os.uname().release)


def test_packages_are_those_that_importlib_metadata_sees() -> None:
    python = run_agent({}).facts.python
    assert not isinstance(python, Missing)
    expected: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        expected.setdefault(name, distribution.version)
    assert python.packages == expected
    assert python.executable == sys.executable
    absent = [name for name in ("pip", "ensurepip") if importlib.util.find_spec(name) is None]
    assert python.absent_installers == tuple(absent)


@pytest.mark.parametrize(
    ("version_file", "distribution", "expected"),
    [
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", "torch-2.9.0+cu128", "12.8"),
        ("cuda = '11.7'\n", "torch-1.13.1", "11.7"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.2.41133'\n", "torch-2.6.0+rocm6.2", "rocm6.2"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", "torch-2.13.0", "cpu"),
        ("", "torch-2.4.1+cu121", "12.1"),
        ("", "torch-2.4.1+cpu", "cpu"),
        ("", "torch-2.4.1", Missing("torch 2.4.1 does not say for which CUDA it was built", "not-found")),
    ],
)
def test_torchs_cuda_build_is_read_without_importing_it(
    tmp_path: Path, version_file: str, distribution: str, expected: str | Missing
) -> None:
    (tmp_path / f"{distribution}.dist-info").mkdir()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    if version_file:
        (tmp_path / "torch" / "version.py").write_text(version_file)
    python = run_agent({}, environ={"PYTHONPATH": str(tmp_path)}).facts.python
    assert not isinstance(python, Missing)
    assert python.torch_cuda == expected


def test_nccl_is_the_wheels_version(tmp_path: Path) -> None:
    (tmp_path / "nvidia_nccl_cu99-2.27.3.dist-info").mkdir()  # newer than that of a torch in the environment
    python = run_agent({}, environ={"PYTHONPATH": str(tmp_path)}).facts.python
    assert not isinstance(python, Missing)
    assert python.nccl == "2.27.3"


def test_the_script_travels_with_its_hash(tmp_path: Path) -> None:
    text = "print('ä')\n"
    (tmp_path / "train.py").write_text(text)
    script = run_agent({"script": "train.py", "paths": {"workdir": str(tmp_path)}}).facts.script
    assert not isinstance(script, Missing)
    assert (script.text, script.sha256) == (text, sha256(text.encode()).hexdigest())


def test_a_script_too_large_to_send_still_has_its_hash(tmp_path: Path) -> None:
    data = b"#" * ((512 << 10) + 1)
    (tmp_path / "big.py").write_bytes(data)
    script = run_agent({"script": str(tmp_path / "big.py")}).facts.script
    assert not isinstance(script, Missing)
    assert (script.size, script.sha256) == (len(data), sha256(data).hexdigest())
    assert isinstance(script.text, Missing)


def test_an_absent_script_is_not_found(tmp_path: Path) -> None:
    script = run_agent({"script": str(tmp_path / "absent" / "train.py")}).facts.script
    assert isinstance(script, Missing)
    assert script.code == "not-found"


def test_a_file_that_never_opens_is_given_up_and_the_others_answer(tmp_path: Path) -> None:
    fifo = tmp_path / "train.py"
    os.mkfifo(fifo)
    facts = ask_until(
        lambda deadline_s: run_agent({"script": str(fifo), "deadline_s": deadline_s}),
        lambda facts: not isinstance(facts.processes, Missing),
    )
    assert is_given_up(facts.script)
    assert not isinstance(facts.processes, Missing)


def test_no_probe_waits_for_openssl_and_none_is_started_for_no_script() -> None:
    code = "import sys; exec(sys.stdin.read(), {'__name__': 'agent'}); print('hashlib' in sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(argv, input=read_agent_source(), capture_output=True, check=True)
    assert done.stdout.strip() == b"False"
    facts = run_agent({}).facts
    assert isinstance(facts.script, Missing)
    assert facts.script.code == "not-asked"
    assert "script" not in facts.probe_ms


def test_a_probe_that_hangs_holds_none_of_the_agents_streams() -> None:
    def hang(ask: ProbeRequest, emit: Emit) -> None:
        del ask
        emit("links", [str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in (0, 1, 2)])
        time.sleep(60)

    answer: Json = {}
    probe = Probe("hang", hang, ("links", "more"), 0.3)
    took = run_probes([probe], read_request({}, None), answer)
    assert answer["links"] == [os.devnull] * 3
    assert answer["more"] == missing("no answer within 0.3 s", "timeout")
    assert 250 < took["hang"] < 3000


def test_a_probe_that_crashes_costs_its_own_facts_only() -> None:
    def crash(ask: ProbeRequest, emit: Emit) -> None:
        raise RuntimeError("broken")

    def die(ask: ProbeRequest, emit: Emit) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def work(ask: ProbeRequest, emit: Emit) -> None:
        emit("c", 1)

    answer: Json = {}
    table = [(crash, "a"), (die, "b"), (work, "c")]
    probes = [Probe(name, run, (name,), 5.0) for run, name in table]
    run_probes(probes, read_request({}, None), answer)
    assert answer["a"] == missing("RuntimeError: broken")
    assert answer["b"] == missing("the b probe ended without an answer")
    assert answer["c"] == 1


def test_a_host_without_a_process_to_spare_still_answers() -> None:
    def starved(ask: ProbeRequest, emit: Emit) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))  # no pipe can be made
        inner: Json = {}
        run_probes([Probe("x", starved, ("x",), 1.0)], ask, inner)
        emit("inner", inner)

    answer: Json = {}
    run_probes([Probe("outer", starved, ("inner",), 5.0)], read_request({}, None), answer)
    assert "Too many open files" in answer["inner"]["x"]["missing"]


def test_a_path_that_does_not_answer_says_so() -> None:
    ask = read_request({"paths": {"output": "/slow/out"}}, None)
    mount = {"resolved": "/slow/out", "filesystem": "nfs4", "source": "server:/slow"}
    late = missing("no answer within 5 s", "timeout")
    (path,) = assemble_paths({PARTS: late, "output": {PARTS: None, "mount": mount}}, ask)
    assert (path["filesystem"], path["free_mib"], path["writable"], path["exists"]) == (
        "nfs4",
        late,
        late,
        late,
    )


def test_a_path_is_looked_at_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_thread(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    reported: list[tuple[object, ...]] = []
    probe(read_request({"paths": {"output": str(tmp_path)}}, None), lambda *words: reported.append(words))
    (facts,) = (words[-1] for words in reported if words[:3] == ("paths", "output", "facts"))
    assert isinstance(facts, dict)
    assert (facts["exists"], facts["writable"]) == (True, True)


def test_a_port_that_could_not_be_tried_is_not_free() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        said = bind_error(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "Too many open files" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_without_root_what_is_unseen_is_said_to_be_unseen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
        done = streamed(payload({"ports": [port]}, b""), _world_python(), cwd="/", **nobody)
    facts = json.loads(done.stdout.partition(b"\n")[2].partition(b"\n")[2])
    (found,) = facts["ports"]["sockets"]
    assert (found["state"], found["uid"], found["pids"]["code"]) == ("LISTEN", 0, "no-permission")
    assert facts["identity"]["uid"] == 65534


def _world_python() -> str:
    """Return a Python that every user may run."""
    found = next(iter(Path("/usr/bin").glob("python3.[0-9]*[0-9]")), None)
    if found is None or int(found.name.split(".")[1]) < 9:
        pytest.skip("no system Python >= 3.9")
    return str(found)


def test_paths_say_what_exists_and_what_can_be_made(tmp_path: Path) -> None:
    wanted = {"workdir": str(tmp_path), "output": str(tmp_path / "new" / "deep"), "run_dir": "/proc/nothing"}
    paths = run_agent({"paths": wanted}).facts.paths
    assert not isinstance(paths, Missing)
    by_role = {path.role: path for path in paths}
    assert (by_role["workdir"].exists, by_role["workdir"].writable) == (True, True)
    assert (by_role["output"].exists, by_role["output"].writable) == (False, True)
    assert not by_role["run_dir"].exists
    room = os.statvfs(tmp_path)
    free = room.f_bfree if os.geteuid() == 0 else room.f_bavail  # what is held back is held back for root
    assert by_role["workdir"].free_mib == pytest.approx(free * room.f_frsize >> 20, abs=512)
    assert by_role["run_dir"].filesystem == "proc"


def test_the_run_directory_is_looked_at_where_the_supervisor_will_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state, expected in (
        (str(tmp_path / "state"), tmp_path / "state"),
        ("relative", tmp_path / ".local/state"),
    ):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("XDG_STATE_HOME", state)
        paths = run_agent({"paths": {"run_dir": ""}}).facts.paths
        assert not isinstance(paths, Missing)
        assert [(path.role, path.resolved) for path in paths] == [("run_dir", f"{expected}/gpulaunch/runs")]
        assert runs_dir() == paths[0].resolved


def test_no_secret_leaves_the_host() -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz"
    environ = {
        "HF_TOKEN": secret,
        "WANDB_API_KEY": secret,
        "HF_HOME": "/data/hf",
        "NCCL_DEBUG": "INFO",
        "HF_ENDPOINT": "https://user:pw@mirror.example",
        "TOKENIZERS_PARALLELISM": "false",
        "MY_PASSWORD": secret,
    }
    facts = run_agent({}, environ=environ).facts
    assert not isinstance(facts.environ, Missing)
    sent = {name: facts.environ.get(name) for name in environ}
    allowed = {"HF_HOME": "/data/hf", "NCCL_DEBUG": "INFO", "TOKENIZERS_PARALLELISM": "false"}
    assert {name: value for name, value in sent.items() if value is not None} == allowed
    assert secret not in repr(facts)


def test_what_is_skipped_is_not_asked() -> None:
    facts = run_agent({"skip": ["kernel_log", "processes"]}).facts
    assert facts.kernel_log == facts.processes == Missing("the request did not ask for it", "not-asked")
    assert not isinstance(facts.ports, Missing)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello\n",
        b"{}\n",
        b'{"request_len": 10, "pynvml_len": 0}\n{}',
        b'{"request_len": 2, "pynvml_len": 9}\n{}',
        b'{"request_len": 2, "pynvml_len": 0}\n[]',
        b'{"request_len": 4, "pynvml_len": 0}\nnull',
        payload({"ports": "many"}, b""),
    ],
)
def test_a_cut_payload_has_its_own_exit_code(data: bytes) -> None:
    done = streamed(data)
    assert (done.returncode, done.stdout) == (agent.EXIT_BAD_PAYLOAD, b"")
    assert b"cut or malformed" in done.stderr


def _pythons(*versions: str) -> list[str]:
    roots = [Path(root) for root in ("/usr/bin", "/usr/local/bin", *os.environ.get("PATH", "").split(":"))]
    roots += account_home().glob(".pyenv/versions/*/bin")
    found = {}
    for version in versions:
        for root in roots:
            program = root / f"python{version}"
            if version not in found and program.exists() and "shims" not in str(root):
                found[version] = str(program)
    return list(found.values())


@pytest.mark.parametrize("python", _pythons("3.6", "3.7", "3.8"))
def test_a_python_too_old_is_named(python: str) -> None:
    done = streamed(payload({}, b""), python)
    assert (done.returncode, done.stdout) == (EXIT_OLD_PYTHON, b"")
    assert done.stderr.decode().startswith(python.rpartition("python")[2] + ".")


@pytest.mark.parametrize("python", _pythons("3.9", "3.10", "3.12", "3.13"))
def test_every_supported_python_answers(python: str) -> None:
    answer = run_agent({"ports": [29500], "free_ports": 1, "paths": {"tmp": ""}}, python=python)
    assert answer.stderr == ""
    assert not isinstance(answer.facts.processes, Missing)
    assert not isinstance(answer.facts.python, Missing)
