r"""The agent: the one file that travels to a host, looks, and prints what it saw as one JSON document.

Standard library only (plus psutil where the host's Python has it, plus the pynvml source handed to it),
Python >= 3.9, imports nothing of ours. It never imports torch and creates no CUDA context.

The contract with whoever sends it (`launcher.gather`):

* The source is executed with `__name__ == "__main__"` (or imported and `serve(stdin, stdout)` called).
* stdin then holds exactly: one line of JSON `{"request_len": N, "pynvml_len": M}` and a newline, N bytes of
  request as UTF-8 JSON, M bytes of zlib-compressed source of pynvml.py (M = 0: none, nvidia-smi is asked).
  Nothing after that is read; stdin need not be closed. With `"stay_s": S` in the line, the agent waits S
  seconds after its answer for `<length>\n` and as many bytes of a zlib-compressed program, and runs it as a
  script with what then follows on stdin; the end of stdin ends it sooner.
* request: `{"host": str, "ports": [int], "free_ports": int, "seed": str, "paths": {role: path},
  "script": str, "skip": [names of facts], "deadline_s": float}`; every key may be absent. An empty path for
  the roles hf_cache and tmp means the one that Hugging Face or Python would use there.
* stdout then gets `\nGPULAUNCH-FACTS-1 <nbytes>\n` and exactly nbytes of UTF-8 JSON: the fields of
  `preflight.facts.HostFacts`. The leading newline ends whatever login noise came before.
* exit codes: 0 answered; 86 the Python here is older than 3.9 (stderr says so); 87 payload cut or malformed.

How it survives a sick host: every probe runs in its own forked child, which streams the facts it has over
a pipe. A child that is late is killed and never waited for, because a process inside a wedged driver call
cannot die; its stdin, stdout and stderr are /dev/null, so that it does not keep the SSH channel open either.
What it had sent by then counts, the rest is missing with code "timeout".
"""

import sys

EXIT_OLD_PYTHON = 86
EXIT_BAD_PAYLOAD = 87

if sys.version_info < (3, 9):
    sys.stderr.write(
        "gpulaunch needs Python 3.9 or newer here; %s is %s\n" % (sys.executable, sys.version.split()[0])
    )
    sys.exit(EXIT_OLD_PYTHON)

# The rest comes after the version check, which has to run on any Python 3.
import contextlib  # noqa: E402
import errno  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import time  # noqa: E402
from functools import partial  # noqa: E402
from stat import S_ISREG  # noqa: E402
from typing import Any, BinaryIO, Callable, NamedTuple, Optional  # noqa: E402

AGENT_VERSION = "1"
MARKER = b"GPULAUNCH-FACTS-1"
DEADLINE_S = 20.0  # when the request names none

ENVIRON_KEYS = (
    "GPULAUNCH_RUN_ID",
    "GPULAUNCH_SUPERVISOR",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_MPS_PIPE_DIRECTORY",
    "SLURM_JOB_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "TMUX",
    "STY",
)
"""Names in a process's environment that are sent; nothing else of it leaves the host."""

Json = dict[str, Any]
Emit = Callable[..., None]  # emit(*path, value): one fact, or a part of one


class Ask(NamedTuple):
    """The request, read once; see the module's docstring."""

    host: str
    ports: tuple[int, ...]
    free_ports: int
    seed: str
    paths: dict[str, str]
    script: str
    skip: frozenset[str]
    deadline_s: float
    pynvml: Optional[bytes]


def missing(reason: str, code: str = "error") -> Json:
    """Return an absent fact with its reason; the codes are those of preflight.facts.MissingCode."""
    return {"missing": reason, "code": code}


def because(error: BaseException) -> Json:
    """Return the absent fact that an exception stands for."""
    if isinstance(error, PermissionError):
        return missing(str(error), "no-permission")
    if isinstance(error, FileNotFoundError):
        return missing(str(error), "not-found")
    return missing("%s: %s" % (type(error).__name__, error))


# ---------------------------------------------------------------------------------------------------------
# Door: payload in, document out


def serve(stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Read one request from `stdin`, answer it on `stdout`; return the exit code."""
    try:
        header = json.loads(stdin.readline())
        request_bytes = _read_exactly(stdin, int(header["request_len"]))
        packed = _read_exactly(stdin, int(header["pynvml_len"]))
        stay_s = int(header.get("stay_s", 0))
        request = json.loads(request_bytes)
        read_request(request, None)
    except (ValueError, KeyError, TypeError, AttributeError, EOFError) as error:
        sys.stderr.write("gpulaunch agent: the request is cut or malformed: %r\n" % (error,))
        return EXIT_BAD_PAYLOAD
    code = main(request, packed or None, stdout)
    if stay_s > 0:
        run_next(stdin, stay_s)
    return code


def run_next(stdin: BinaryIO, stay_s: int) -> None:
    """Wait for one more program, then run it here, with the rest of `stdin`.

    A second question then needs no second interpreter, which costs both sides more than the question itself.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(stay_s)  # who asked may be gone without a word
    size = stdin.readline()
    if not size.strip().isdigit():
        return
    import zlib

    program = zlib.decompress(_read_exactly(stdin, int(size)))
    signal.alarm(0)
    with contextlib.suppress(SystemExit):
        exec(compile(program, "next.py", "exec", dont_inherit=True), {"__name__": "__main__"})  # noqa: S102 - sent by the client


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = stream.read(count - len(data))
        if not part:
            raise EOFError("%d of %d bytes came" % (len(data), count))
        data += part
    return data


def read_request(request: Json, pynvml: Optional[bytes]) -> Ask:
    """Return `request` with defaults filled in; raises ValueError, TypeError or AttributeError."""
    return Ask(
        host=str(request.get("host", "")),
        ports=tuple(int(port) for port in request.get("ports") or ()),
        free_ports=int(request.get("free_ports") or 0),
        seed=str(request.get("seed", "")),
        paths={str(role): str(path) for role, path in (request.get("paths") or {}).items()},
        script=str(request.get("script") or ""),
        skip=frozenset(request.get("skip") or ()),
        deadline_s=float(request.get("deadline_s") or DEADLINE_S),
        pynvml=pynvml,
    )


def main(request: Json, pynvml_source: Optional[bytes], out: BinaryIO) -> int:
    """Run the probes that `request` does not skip and write the answer to `out`. Return 0.

    `pynvml_source` is the zlib-compressed text of pynvml.py, or None.
    """
    write_answer(look(read_request(request, pynvml_source)), out)
    return 0


def write_answer(facts: Json, out: BinaryIO) -> None:
    """Write marker line and document."""
    body = json.dumps(facts, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    out.write(b"\n%s %d\n" % (MARKER, len(body)) + body)
    out.flush()


def look(ask: Ask) -> Json:
    """Return the fields of HostFacts as JSON types: every probe in its own child, all side by side."""
    start = time.monotonic()
    answer: Json = {}
    took = run_probes([probe for probe in PROBES if not ask.skip.issuperset(probe.facts)], ask, answer)
    answer["gpus"] = assemble_gpus(answer.get("gpus"))
    answer["paths"] = assemble_paths(answer.get("paths"), ask)
    if named_pids(answer):
        took.update(run_probes([NAMED], ask._replace(deadline_s=NAMED.deadline_s), answer))
    merge_named(answer)
    for probe in PROBES:
        for name in probe.facts:
            if name in ask.skip:
                answer[name] = missing("the request did not ask for it", "not-asked")
    took["all"] = round((time.monotonic() - start) * 1000, 1)
    return {"host": ask.host, "agent_version": AGENT_VERSION, **answer, "probe_ms": took}


# ---------------------------------------------------------------------------------------------------------
# Probes in children


class Probe(NamedTuple):
    """A row of the table: what runs, which facts it owes, and how long it may take."""

    name: str
    run: Callable[[Ask, Emit, Json], None]
    facts: tuple[str, ...]
    deadline_s: float


class Running:
    """A probe's child as the parent sees it."""

    def __init__(self, probe: Probe, pid: int, fd: int, deadline: float) -> None:
        self.probe = probe
        self.pid = pid
        self.fd = fd
        self.deadline = deadline
        self.started = time.monotonic()
        self.tail = b""
        self.error: Optional[Json] = None

    def take(self, data: bytes, answer: Json) -> None:
        """Put every whole line that came into `answer`."""
        *lines, self.tail = (self.tail + data).split(b"\n")
        for line in lines:
            try:
                path, value = json.loads(line)
            except ValueError:
                continue  # cut by the death of the probe; what it owes is missing in the end
            if path:
                put(answer, path, value)
            else:
                self.error = value

    def finish(self, answer: Json, excuse: Optional[Json]) -> float:
        """Close up; what the probe still owes is missing because of `excuse` (or its own error)."""
        os.close(self.fd)
        took_ms = (time.monotonic() - self.started) * 1000
        if excuse is not None:
            os.kill(self.pid, signal.SIGKILL)
        reason = excuse or self.error or missing("the %s probe ended without an answer" % self.probe.name)
        for name in self.probe.facts:
            owed = answer.get(name)
            if owed is None:
                answer[name] = reason
            elif isinstance(owed, dict) and PARTS in owed:
                owed[PARTS] = reason
        return round(took_ms, 1)


PARTS = "?"  # marks a fact that comes in parts; its value excuses the parts that did not come


def put(tree: Json, path: list[Any], value: Any) -> None:
    """Set `value` at `path`; a path of several steps makes a fact of parts."""
    for step in path[:-1]:
        tree = tree.setdefault(str(step), {PARTS: None})
    tree[str(path[-1])] = value


def start_probe(probe: Probe, ask: Ask, answer: Json) -> Running:
    """Fork the probe; the child never returns."""
    read_fd, write_fd = os.pipe()
    limit_s = min(probe.deadline_s, ask.deadline_s)
    pid = os.fork()
    if pid:
        os.close(write_fd)
        return Running(probe, pid, read_fd, time.monotonic() + limit_s)
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(quiet, fd)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s + 1)  # should the parent be gone
        emit = _emitter(write_fd)
        try:
            probe.run(ask, emit, answer)
        except BaseException as error:
            emit(because(error))
    finally:
        os._exit(0)


def _emitter(fd: int) -> Emit:
    import _thread

    lock = _thread.allocate_lock()  # a probe's threads share the pipe

    def emit(*path_and_value: Any) -> None:
        line = json.dumps([path_and_value[:-1], path_and_value[-1]], separators=(",", ":")).encode() + b"\n"
        with lock:
            while line:
                line = line[os.write(fd, line) :]

    return emit


def run_probes(probes: list[Probe], ask: Ask, answer: Json) -> Json:
    """Run `probes` side by side into `answer`; return how long each took in ms."""
    waiting: dict[int, Running] = {}
    for probe in probes:
        try:
            running = start_probe(probe, ask, answer)
        except OSError as error:  # no process or descriptor left: a finding of its own, and no reason to stop
            answer.update(dict.fromkeys(probe.facts, because(error)))
        else:
            waiting[running.fd] = running
    took: Json = {}
    pids = [running.pid for running in waiting.values()]
    while waiting:
        next_deadline = min(running.deadline for running in waiting.values())
        ready = _readable(list(waiting), max(0.0, next_deadline - time.monotonic()))
        for fd in ready:
            data = os.read(fd, 1 << 20)
            if data:
                waiting[fd].take(data, answer)
                continue
            running = waiting.pop(fd)
            took[running.probe.name] = running.finish(answer, None)
        now = time.monotonic()
        for fd in [fd for fd, running in waiting.items() if running.deadline <= now]:
            running = waiting.pop(fd)
            limit_s = min(running.probe.deadline_s, ask.deadline_s)
            excuse = missing("no answer within %g s" % limit_s, "timeout")
            took[running.probe.name] = running.finish(answer, excuse)
    for pid in pids:
        _reap(pid)
    return took


def _readable(fds: list[int], timeout_s: float) -> list[int]:
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll(timeout_s * 1000 + 1)]


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


# ---------------------------------------------------------------------------------------------------------
# Small readers


def read_text(path: str, limit: int = 1 << 20) -> str:
    """Return a file's text; raises OSError."""
    with open(path, "rb", buffering=0) as file:
        data = b""
        while len(data) < limit:
            part = file.read(limit - len(data))
            if not part:
                break
            data += part
    return data.decode("utf-8", "replace")


def read_int(path: str) -> int:
    """Return a file's number; raises OSError, ValueError."""
    return int(read_text(path))


def text_or(path: str, default: str = "") -> str:
    """Return a file's stripped text, or `default` where it cannot be read."""
    try:
        return read_text(path).strip()
    except OSError:
        return default


def fact(read: Callable[[], Any]) -> Any:
    """Return what `read` returns, or the reason it could not."""
    try:
        return read()
    except Exception as error:
        return because(error)


def within(seconds: float, read: Callable[[], Any]) -> Any:
    """Return what `read` returns, or Missing(timeout): for a call that may hang inside a probe."""
    import threading

    box: list[Any] = []
    thread = threading.Thread(target=lambda: box.append(fact(read)), daemon=True)
    thread.start()
    thread.join(seconds)
    return box[0] if box else missing("no answer within %g s" % seconds, "timeout")


class Ran(NamedTuple):
    """A command's end; status None: given up at its deadline."""

    status: Optional[int]
    text: str


def run_command(argv: list[str], timeout_s: float) -> Ran:
    """Run a program of the host and return its output; a program that hangs is killed and not waited for.

    Raises FileNotFoundError where there is no such program. subprocess is avoided: it waits after a kill.
    """
    import shutil

    program = shutil.which(
        argv[0], path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin:/usr/lib/wsl/lib"
    )
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "no such program", argv[0])
    read_fd, write_fd = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, write_fd, 1),
        (os.POSIX_SPAWN_DUP2, write_fd, 2),
    ]
    environ = {**os.environ, "LC_ALL": "C"}
    pid = os.posix_spawn(program, argv, environ, file_actions=actions)
    os.close(write_fd)
    data, ended = _drain(read_fd, time.monotonic() + timeout_s)
    os.close(read_fd)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        return Ran(None, data.decode("utf-8", "replace"))
    _, status = os.waitpid(pid, 0)
    return Ran(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1, data.decode("utf-8", "replace"))


def _drain(fd: int, deadline: float) -> tuple[bytes, bool]:
    data = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or len(data) > 64 << 20:
            return data, False
        if not _readable([fd], left):
            continue
        part = os.read(fd, 1 << 20)
        if not part:
            return data, True
        data += part


def user_name(uid: int) -> str:
    """Return the name of a user id, or the number as text where it has none.

    Names may come from a directory server; once that has not answered, numbers have to do.
    """
    if uid not in _USERS:
        import pwd

        name = str(uid) if _UNANSWERED in _USERS else within(_NAME_S, lambda: pwd.getpwuid(uid).pw_name)
        if isinstance(name, dict) and name["code"] == "timeout":
            _USERS[_UNANSWERED] = ""
        _USERS[uid] = name if isinstance(name, str) else str(uid)
    return _USERS[uid]


_NAME_S = 1.0
_UNANSWERED = -1  # in place of a user id: the directory server does not answer
_USERS: dict[int, str] = {}


# ---------------------------------------------------------------------------------------------------------
# identity, limits, environ, InfiniBand, PCI: files of the kernel that do not hang


def probe_host(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit what a handful of /proc and /sys files say."""
    del ask, answer
    emit("identity", fact(identity))
    emit("limits", fact(limits))
    emit("environ", fact(launch_environ))
    emit("infiniband", fact(infiniband))
    emit("pci_gpus", fact(pci_gpus))
    emit("claims", fact(gpu_claims))


CLAIMS_DIR = "/tmp"  # noqa: S108 - as launcher/onhost/supervisor.py has it
CLAIM_PREFIX = "gpulaunch-claim-"


def gpu_claims() -> list[Json]:
    """Return facts.GpuClaim for every live claim: its file is locked by the run, in this boot."""
    boot = text_or("/proc/sys/kernel/random/boot_id")
    found = []
    for name in sorted(os.listdir(CLAIMS_DIR)):
        if not name.startswith(CLAIM_PREFIX):
            continue
        claim = _claim(os.path.join(CLAIMS_DIR, name), boot)
        if claim is not None:
            uuid = name[len(CLAIM_PREFIX) :].rpartition(".")[0]
            found.append({"gpu_uuid": uuid, **claim})
    return found


def _claim(path: str, boot: str) -> Optional[Json]:
    """Read one claim; None when it is none, or provably its owner's no more."""
    import fcntl

    try:
        # Anybody may have put anything there: a link is not followed, a FIFO does not hold us.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode):
            return None
        try:
            said = json.loads(os.read(fd, 4096))
            run_id, pid = str(said["run_id"]), int(said["pid"])
            since, written_in = float(said["since"]), said["boot_id"]
        except (OSError, ValueError, TypeError, KeyError):
            run_id, pid, since, written_in = "", 0, status.st_mtime, boot
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if written_in != boot:
                return None
        else:
            return None  # nobody holds it
        uid = status.st_uid
        return {"run_id": run_id, "user": user_name(uid), "uid": uid, "pid": pid, "since_unix": since}
    finally:
        os.close(fd)


INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of include/linux/proc_ns.h


def identity() -> Json:
    """Return facts.Identity."""
    kernel = os.uname().release
    namespace = _readlink("/proc/self/ns/pid")
    initial = namespace == INITIAL_PID_NAMESPACE
    return {
        "hostname": os.uname().nodename,
        "boot_id": text_or("/proc/sys/kernel/random/boot_id"),
        "uid": os.getuid(),
        "user": user_name(os.getuid()),
        "kernel": kernel,
        "now_unix": time.time(),
        "uptime_s": float(read_text("/proc/uptime").split()[0]),
        "container": container(kernel, initial=initial),
        "initial_pid_namespace": initial,
    }


def _readlink(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def container(kernel: str, *, initial: bool) -> str:
    """Return what says that this is no plain host, or ""."""
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in os.environ or os.path.exists("/var/run/secrets/kubernetes.io"):
        return "kubernetes"
    if os.path.exists("/.dockerenv"):
        return "docker"
    named = text_or("/run/systemd/container") or os.environ.get("container", "")  # noqa: SIM112 - its name
    if named:
        return named
    found = re.search(r"docker|kubepods|libpod|containerd|lxc", text_or("/proc/1/cgroup"))
    if found:
        return found.group(0)
    if "microsoft" in kernel.lower():
        return "wsl2"
    return "" if initial else "pid-namespace"


def limits() -> Json:
    """Return facts.Limits."""
    import resource

    memory = {
        key: int(kib) // 1024 for key, kib in re.findall(r"(\w+):\s+(\d+) kB", read_text("/proc/meminfo"))
    }
    shm = fact(lambda: os.statvfs("/dev/shm"))  # noqa: S108 - measured, not used
    unlimited = resource.RLIM_INFINITY
    memlock, nofile, nproc = (
        resource.getrlimit(which)
        for which in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    return {
        "cpus": cpu_count(),
        "memory_total_mib": memory.get("MemTotal", 0),
        "memory_available_mib": memory.get("MemAvailable", memory.get("MemFree", 0)),
        "memory_limit_mib": fact(memory_limit_mib),
        "swap_total_mib": memory.get("SwapTotal", 0),
        "swap_used_mib": memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        "load_1min": os.getloadavg()[0],
        "shm_total_mib": shm if isinstance(shm, dict) else shm.f_blocks * shm.f_frsize >> 20,
        "shm_free_mib": shm if isinstance(shm, dict) else shm.f_bavail * shm.f_frsize >> 20,
        "memlock_kib": -1 if memlock[0] == unlimited else memlock[0] // 1024,
        "nofile": -1 if nofile[0] == unlimited else nofile[0],
        "nofile_hard": -1 if nofile[1] == unlimited else nofile[1],
        "nproc": -1 if nproc[0] == unlimited else nproc[0],
    }


def cpu_count() -> int:
    """Return how many CPUs this session may use: affinity, cut by the cgroup's quota."""
    count = len(os.sched_getaffinity(0))
    for folder in cgroup_folders("cpu"):
        quota, period = [*text_or(folder + "/cpu.max").split(), "max", "0"][:2]
        if quota == "max":
            quota = text_or(folder + "/cpu.cfs_quota_us", "-1")
            period = text_or(folder + "/cpu.cfs_period_us", "0")
        if int(quota) > 0 and int(period) > 0:
            count = min(count, max(1, -(-int(quota) // int(period))))
    return count


def memory_limit_mib() -> Any:
    """Return the smallest memory limit of this session's cgroup and those above it."""
    found = []
    for folder in cgroup_folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = text_or(folder + "/" + name)
            if text.isdigit() and int(text) < 1 << 60:  # version 1 writes "none" as a number near 2**63
                found.append(int(text) >> 20)
    return min(found) if found else missing("no cgroup limits memory here", "not-found")


def cgroup_folders(controller: str) -> list[str]:
    """Return the folders of this process's cgroup and those above it, version 2 or 1."""
    folders = []
    for line in text_or("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number != "0" and controller not in controllers.split(","):
            continue
        root = "/sys/fs/cgroup" if number == "0" else "/sys/fs/cgroup/" + controller
        parts = [part for part in path.split("/") if part and part != ".."]
        folders += ["/".join([root, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return folders


_LAUNCH_NAMES = re.compile(
    r"(CUDA|NCCL|GLOO|ACCELERATE|PET|TORCH|TORCHELASTIC|PYTORCH|OMP|MKL|HF|TRANSFORMERS|NVIDIA|UCX|FI|SLURM|GPULAUNCH"
    r"|FSDP|DEEPSPEED|XLA|TOKENIZERS|WANDB|KUBERNETES_SERVICE|NVTE|TRITON|BITSANDBYTES|CUBLAS|CUDNN)_\w+"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|MASTER_ADDR|MASTER_PORT"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME|PYTHONSTARTUP|VIRTUAL_ENV|CONDA_PREFIX|TMPDIR|PATH"
    r"|(HTTP|HTTPS|ALL|NO)_PROXY|(http|https|all|no)_proxy"
)
_SECRET_NAME = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|_KEY$|AUTH|COOKIE", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"://[^/\s]*@|\b(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA)\w{8,}|^[0-9a-fA-F]{32,}$|\beyJ[\w-]{10,}\."
)


def launch_environ() -> dict[str, str]:
    """Return the variables that a launch from here would inherit; what looks like a secret stays here."""
    return {
        name: value
        for name, value in os.environ.items()
        if _LAUNCH_NAMES.fullmatch(name) and not _SECRET_NAME.search(name) and not _SECRET_VALUE.search(value)
    }


def infiniband() -> list[Json]:
    """Return facts.IbPort for each port; none on a host without InfiniBand."""
    root = "/sys/class/infiniband"
    ports = []
    for device in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        for port in sorted(os.listdir("%s/%s/ports" % (root, device)), key=int):
            folder = "%s/%s/ports/%s" % (root, device, port)
            rate = re.match(r"[\d.]+", text_or(folder + "/rate"))
            ports.append(
                {
                    "device": device,
                    "port": int(port),
                    "state": text_or(folder + "/state").split(":")[-1].strip(),
                    "rate_gbps": float(rate.group(0))
                    if rate
                    else missing("the port names no rate", "not-supported"),
                    "link_layer": text_or(folder + "/link_layer"),
                    "link_downed": fact(partial(read_int, folder + "/counters/link_downed")),
                }
            )
    return ports


_PCI = "/sys/bus/pci/devices"


def pci_gpus() -> list[Json]:
    """Return facts.PciGpu: NVIDIA's (10de) display controllers (class 03xx), with or without a driver."""
    found = []
    for bus_id in sorted(os.listdir(_PCI)) if os.path.isdir(_PCI) else []:
        folder = "%s/%s" % (_PCI, bus_id)
        if text_or(folder + "/vendor") != "0x10de" or not text_or(folder + "/class").startswith("0x03"):
            continue
        driver = os.path.basename(_readlink(folder + "/driver"))
        found.append(
            {
                "bus_id": bus_id,
                "device_id": text_or(folder + "/device")[2:],
                "driver": driver or missing("no driver is bound to it", "not-found"),
            }
        )
    return found


# ---------------------------------------------------------------------------------------------------------
# The training environment's packages


def probe_python(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit facts.PythonEnv."""
    del ask, answer
    packages, folders = installed_packages([folder for folder in sys.path if folder])
    emit(
        "python",
        {
            "executable": sys.executable,
            "version": "%d.%d.%d" % sys.version_info[:3],
            "packages": packages,
            "torch_cuda": fact(lambda: torch_cuda(packages, folders)),
            "nccl": fact(lambda: nccl(packages)),
        },
    )


_METADATA = re.compile(r"(?P<name>.+?)(-(?P<version>[^-]+))?(-py[\d.]+)?\.(dist|egg)-info")


def installed_packages(folders: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return {distribution: version} and {distribution: folder it lies in}, the first on the path winning.

    The metadata folder's name holds the version; importlib.metadata opens each folder for the same answer.
    """
    packages: dict[str, str] = {}
    where: dict[str, str] = {}
    for folder in folders:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            match = _METADATA.fullmatch(entry)
            if match is None:
                continue
            name = re.sub(r"[-_.]+", "-", match["name"]).lower()
            version = match["version"] or _version_inside(folder + "/" + entry)
            if name not in packages and version:
                packages[name] = version
                where[name] = folder
    return packages, where


def _version_inside(path: str) -> str:
    """Return the version out of an old egg-info or a development install."""
    for name in ("/PKG-INFO", "/METADATA", ""):
        match = re.search(r"^Version: *(\S+)", text_or(path + name), re.MULTILINE)
        if match:
            return match.group(1)
    return ""


def torch_cuda(packages: dict[str, str], folders: dict[str, str]) -> Any:
    """Return the CUDA build of the torch wheel: "12.8", "cpu", "rocm6.2"."""
    if "torch" not in packages:
        return missing("torch is not installed in %s" % sys.executable, "not-found")
    text = text_or(folders["torch"] + "/torch/version.py")
    cuda = re.search(r"^cuda\s*(?::[^=]*)?=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    if cuda:
        return cuda.group(1)
    hip = re.search(r"^hip\s*(?::[^=]*)?=\s*['\"](\d+\.\d+)", text, re.MULTILINE)
    if hip:
        return "rocm" + hip.group(1)
    local = packages["torch"].partition("+")[2]
    tag = re.match(r"cu(\d+)(\d)$", local)
    if tag:
        return "%s.%s" % tag.groups()
    if local.startswith(("cpu", "rocm")):
        return local.split(".")[0] if local.startswith("cpu") else ".".join(local.split(".")[:2])
    if text:
        return "cpu"
    return missing("torch %s does not say for which CUDA it was built" % packages["torch"], "not-found")


def nccl(packages: dict[str, str]) -> Any:
    """Return the version of the NCCL wheel, the newest where several are there."""
    found = sorted(name for name in packages if re.fullmatch(r"nvidia-nccl-cu\d+", name))
    if found:
        return packages[found[-1]]
    return missing("no nvidia-nccl package: a CPU build, or NCCL is part of torch", "not-found")


# ---------------------------------------------------------------------------------------------------------
# Network


def probe_network(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit facts.Network; a name server that does not answer costs only the name's addresses."""
    del ask, answer
    import socket

    own_name = os.uname().nodename
    emit(
        "network",
        {
            "interfaces": interfaces(),
            "default_interface": fact(default_interface),
            "own_name_addresses": within(
                3.0,
                lambda: sorted({str(item[4][0]) for item in socket.getaddrinfo(own_name, None)}),
            ),
            "ssh_server_address": ssh_server_address(),
        },
    )


def ssh_server_address() -> Any:
    """Return the address this SSH connection came in on."""
    parts = os.environ.get("SSH_CONNECTION", "").split()
    return parts[2] if len(parts) == 4 else missing("this session did not come over SSH", "not-found")


def interfaces() -> list[Json]:
    """Return facts.Interface for each interface of this network namespace."""
    import fcntl
    import socket
    import struct

    addresses = interface_addresses()
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:

        def ask_kernel(request: int, name: str, form: str) -> int:
            reply = fcntl.ioctl(control.fileno(), request, struct.pack("16s16x", name.encode()))
            return int(struct.unpack_from(form, reply, 16)[0])

        for index, name in socket.if_nameindex():
            flags = ask_kernel(0x8913, name, "H")  # SIOCGIFFLAGS
            speed = text_or("/sys/class/net/%s/speed" % name, "-1")
            known = speed.isdigit() and int(speed) < 1 << 31
            found.append(
                {
                    "name": name,
                    "addresses": addresses.get(index, []),
                    "up": flags & 0x41 == 0x41,  # IFF_UP and IFF_RUNNING
                    "virtual": not os.path.exists("/sys/class/net/%s/device" % name),
                    "mtu": ask_kernel(0x8921, name, "i"),  # SIOCGIFMTU
                    "speed_mbps": int(speed)
                    if known
                    else missing("the interface names no speed", "not-supported"),
                }
            )
    return found


def netlink_dump(protocol: int, kind: int, payload: bytes) -> list[bytes]:
    """Return the payloads of a netlink dump; raises OSError where the kernel refuses it."""
    import socket
    import struct

    messages: list[bytes] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as link:
        link.settimeout(2.0)
        link.bind((0, 0))
        link.send(struct.pack("=IHHII", 16 + len(payload), kind, 0x301, 1, 0) + payload)  # REQUEST | DUMP
        while True:
            data = link.recv(1 << 18)
            while len(data) >= 16:
                length, got, _, _, _ = struct.unpack_from("=IHHII", data)
                if got == 3:  # NLMSG_DONE
                    return messages
                if got == 2:  # NLMSG_ERROR
                    code = -struct.unpack_from("=i", data, 16)[0]
                    raise OSError(code, os.strerror(code))
                messages.append(data[16:length])
                data = data[(length + 3) & ~3 :]


def interface_addresses() -> dict[int, list[str]]:
    """Return {interface index: addresses}, IPv4 first, by RTM_GETADDR (an ioctl gives only the first)."""
    import socket
    import struct

    found: dict[int, list[str]] = {}
    for message in netlink_dump(0, 22, struct.pack("=BBBBI", 0, 0, 0, 0, 0)):
        family, _, _, _, index = struct.unpack_from("=BBBBI", message)
        if family not in (socket.AF_INET, socket.AF_INET6):
            continue
        attributes, at = {}, 8
        while at + 4 <= len(message):
            length, kind = struct.unpack_from("=HH", message, at)
            attributes[kind] = message[at + 4 : at + max(length, 4)]
            at += (max(length, 4) + 3) & ~3
        packed = attributes.get(2) or attributes.get(1)  # IFA_LOCAL, else IFA_ADDRESS
        if packed:
            found.setdefault(index, []).append(socket.inet_ntop(family, packed))
    return {index: sorted(addresses, key=lambda text: ":" in text) for index, addresses in found.items()}


def default_interface() -> Any:
    """Return the interface of the default route with the lowest metric, IPv4 first."""
    routes = [line.split() for line in text_or("/proc/net/route").splitlines()[1:]]
    default = [
        (int(route[6]), route[0]) for route in routes if route[1] == "00000000" and route[7] == "00000000"
    ]
    if not default:
        routes = [line.split() for line in text_or("/proc/net/ipv6_route").splitlines()]
        default = [
            (int(route[5], 16), route[9])
            for route in routes
            if set(route[0]) == {"0"} and route[1] == "00" and route[9] != "lo"
        ]
    return min(default)[1] if default else missing("there is no default route", "not-found")


# ---------------------------------------------------------------------------------------------------------
# Processes, ports, system: one walk over /proc for all three


class Stat(NamedTuple):
    """What the walk keeps of /proc/PID/stat."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgid: int
    sid: int
    tty: bool
    cpu_ticks: int
    threads: int
    start_ticks: int


def read_stat(pid: int) -> Stat:
    """Return /proc/PID/stat; raises OSError when the process is gone."""
    text = read_text("/proc/%d/stat" % pid)
    before, _, after = text.rpartition(")")  # a process may have brackets and blanks in its name
    rest = after.split()
    return Stat(
        pid=pid,
        comm=before.partition("(")[2],
        state=rest[0],
        ppid=int(rest[1]),
        pgid=int(rest[2]),
        sid=int(rest[3]),
        tty=rest[4] != "0",
        cpu_ticks=int(rest[11]) + int(rest[12]),
        threads=int(rest[17]),
        start_ticks=int(rest[19]),
    )


class Walk:
    """All processes of the host, read once."""

    def __init__(self, inodes: frozenset[str]) -> None:
        """Read every stat, and the open files of every process that lets us; `inodes` are sockets to find."""
        self.stats: dict[int, Stat] = {}
        self.gpu_files: dict[int, Any] = {}
        self.holders: dict[str, list[int]] = {}
        self.unreadable = False
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    self.stats[int(name)] = read_stat(int(name))
                except (OSError, IndexError, ValueError):
                    continue
        self.kernel = {pid for pid, stat in self.stats.items() if pid == 2 or stat.ppid == 2}
        own = os.getpid()
        for pid in sorted(self.stats.keys() - self.kernel - {own}):
            self._open_files(pid, inodes)

    def _open_files(self, pid: int, inodes: frozenset[str]) -> None:
        try:
            targets = open_files(self.stats[pid])
        except PermissionError as error:
            self.unreadable = True
            self.gpu_files[pid] = because(error)
            return
        except OSError:
            self.gpu_files[pid] = []
            return
        self.gpu_files[pid] = gpu_devices(targets)
        for target in targets & inodes:
            self.holders.setdefault(target, []).append(pid)

    def ancestors(self, pid: int) -> list[int]:
        """Return the pids above `pid`, nearest first."""
        above: list[int] = []
        parent = self.stats[pid].ppid if pid in self.stats else 0
        while parent in self.stats and parent not in above:
            above.append(parent)
            parent = self.stats[parent].ppid
        return above


def open_files(stat: Stat) -> set[str]:
    """Return what the descriptors of a process point to, over its live threads.

    Threads share one table, so the leader's is read; but a leader that has ended has none although its
    threads keep everything open, so there each thread is read.
    """
    folders = ["/proc/%d/fd" % stat.pid]
    if stat.state in "ZX":
        if stat.threads <= 1:
            return set()
        tasks = "/proc/%d/task" % stat.pid
        folders = ["%s/%s/fd" % (tasks, task) for task in os.listdir(tasks) if task != str(stat.pid)]
    targets = set()
    for folder in folders:
        for fd in os.listdir(folder):
            try:
                targets.add(os.readlink("%s/%s" % (folder, fd)))
            except OSError:
                continue
    return targets


def gpu_files(stat: Stat) -> list[str]:
    """Return the GPU devices that a process has open; raises OSError."""
    return gpu_devices(open_files(stat))


def gpu_devices(paths: set[str]) -> list[str]:
    """Return those of `paths` that are GPU devices."""
    return sorted(path for path in paths if path.startswith(("/dev/nvidia", "/dev/dri/")))


_RANK_MARKS = frozenset({"GPULAUNCH_RUN_ID", "GPULAUNCH_SUPERVISOR", "TORCHELASTIC_RUN_ID", "LOCAL_RANK"})
_LAUNCHER = re.compile(
    r"(^|/)(torchrun|accelerate|deepspeed|gpulaunch|horovodrun)(\0|$)"
    r"|\0-m\0(torch\.distributed\.(run|launch)|accelerate\.commands\.launch|launcher\.cli|gpulaunch)(\0|$)"
    r"|gpulaunch-supervisor"
)
_WORKER_COMMS = frozenset({"pt_data_worker", "pt_data_pin", "pt_elastic", "nvidia-cuda-mps"})


def probe_survey(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit processes, ports and system out of one walk over /proc."""
    del answer
    started = time.monotonic()
    rows = sockets_on(ask.ports)
    walk = Walk(frozenset("socket:[%s]" % row["inode"] for row in rows))
    chosen = choose(walk)
    emit("processes", process_table(walk, chosen))
    emit("ports", fact(lambda: ports_fact(ask, rows, walk)))
    emit("system", system_fact(walk, fact(service_states), started))


def choose(walk: Walk) -> set[int]:
    """Return the pids that matter (see facts.Process), without the agent and its own probes."""
    mine = {os.getpid(), os.getppid()}
    mine |= {pid for pid, stat in walk.stats.items() if stat.ppid in mine}
    core = {pid for pids in walk.holders.values() for pid in pids}
    for pid, stat in walk.stats.items():
        if pid in walk.kernel or pid in mine:
            continue
        files = walk.gpu_files.get(pid)
        holds_gpu = isinstance(files, list) and bool(
            files
        )  # unreadable: another user's, no reason to send it
        if stat.state in "ZTtD" or stat.comm in _WORKER_COMMS or holds_gpu or is_launch(stat):
            core.add(pid)
    core -= mine
    chosen = set(core)
    for pid in core:
        chosen.update(walk.ancestors(pid))
    chosen |= {pid for pid, stat in walk.stats.items() if stat.ppid in core}
    return chosen - (mine - core)


def is_launch(stat: Stat) -> bool:
    """Whether a process is a rank or a launcher by its own environment or command line."""
    try:
        if _LAUNCHER.search(read_text("/proc/%d/cmdline" % stat.pid, 1 << 16)):
            return True
        environ = read_text("/proc/%d/environ" % stat.pid)
    except OSError:
        return False
    return any(item.partition("=")[0] in _RANK_MARKS for item in environ.split("\0"))


def process_table(walk: Walk, chosen: set[int]) -> Json:
    """Return facts.ProcessTable for the chosen pids."""
    psutil = import_psutil()
    agent = os.getppid()

    def rows_of(pids: set[int]) -> list[Json]:
        rows = [process_row(walk.stats[pid], walk.gpu_files.get(pid, []), psutil) for pid in sorted(pids)]
        return [row for row in rows if row is not None]

    rows = rows_of(chosen)
    rows += rows_of(supervisors(walk, rows) - chosen)
    return {
        "source": "psutil" if psutil else "proc",
        "processes": sorted(rows, key=lambda row: int(row["pid"])),
        "total": len(walk.stats),
        "agent_pid": agent,
        "ancestors": walk.ancestors(agent),
    }


def supervisors(walk: Walk, rows: list[Json]) -> set[int]:
    """Return the live processes, and those above them, that rows name as their supervisor."""
    found: set[int] = set()
    for row in rows:
        _, _, identity = row["environ"].get("GPULAUNCH_SUPERVISOR", "").partition(":")
        pid, _, ticks = identity.partition(":")
        stat = walk.stats.get(int(pid)) if pid.isdigit() else None
        if stat is not None and str(stat.start_ticks) == ticks:
            found |= {stat.pid, *walk.ancestors(stat.pid)}
    return found


def import_psutil() -> Any:
    """Return psutil where the host's Python has one that works, else None."""
    try:
        import psutil  # noqa: TID251 - the one place

        return psutil if hasattr(psutil.Process, "oneshot") else None
    except Exception:
        return None


def process_row(stat: Stat, gpu_files: Any, psutil: Any) -> Optional[Json]:
    """Return facts.Process, or None when the process has ended meanwhile.

    psutil has no start ticks, session, cgroup, wchan or files of a dead leader's threads, and splits
    rewritten command lines by guess: those are read from /proc in any case.
    """
    try:
        head = psutil_head(stat.pid, psutil) if psutil else proc_head(stat)
    except OSError:
        return None
    if head is None:
        return None
    pid = stat.pid
    uptime_s = time.clock_gettime(_CLOCK_BOOTTIME)
    return {
        "pid": pid,
        "start_ticks": stat.start_ticks,
        "pgid": stat.pgid,
        "sid": stat.sid,
        **head,
        "argv": calmly(stat, lambda: argv(pid)),
        "age_s": round(max(0.0, uptime_s - stat.start_ticks / _TICKS), 2),
        "tty": stat.tty,
        "cgroup": fact(lambda: cgroup(pid)),
        "environ": calmly(stat, lambda: environ_of(pid)),
        "gpu_files": gpu_files,
        "wchan": fact(lambda: wchan(pid)),
    }


_TICKS = os.sysconf("SC_CLK_TCK")
_CLOCK_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", 7)  # start ticks count suspended time too


def calmly(stat: Stat, read: Callable[[], Any]) -> Any:
    """Read a process's memory; one in state D may hold the lock that this needs, so give up on it soon."""
    return within(0.5, read) if stat.state == "D" else fact(read)


def proc_head(stat: Stat) -> Json:
    """Return the fields that psutil has too, from /proc; raises OSError."""
    status = read_text("/proc/%d/status" % stat.pid)
    found = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    uid = int(found.group(1)) if found else os.stat("/proc/%d" % stat.pid).st_uid
    return {
        "ppid": stat.ppid,
        "uid": uid,
        "user": user_name(uid),
        "state": stat.state,
        "comm": stat.comm,
        "threads": stat.threads,
        "cpu_ticks": stat.cpu_ticks,
    }


_PSUTIL_STATES = {
    "running": "R",
    "sleeping": "S",
    "disk-sleep": "D",
    "stopped": "T",
    "tracing-stop": "t",
    "zombie": "Z",
    "dead": "X",
    "wake-kill": "K",
    "waking": "W",
    "idle": "I",
    "parked": "P",
}


def psutil_head(pid: int, psutil: Any) -> Optional[Json]:
    """Return the same fields by psutil, None when the process has ended."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            name = process.name()
            uid = process.uids().real
            return {
                "ppid": process.ppid(),
                "uid": uid,
                "user": user_name(uid),
                "state": _PSUTIL_STATES.get(process.status(), "?"),
                "comm": _kernel_name(pid, name),
                "threads": process.num_threads(),
                "cpu_ticks": round((times.user + times.system) * _TICKS),
            }
    except psutil.NoSuchProcess as error:
        if isinstance(error, psutil.ZombieProcess):
            return proc_head(read_stat(pid))
        return None
    except psutil.AccessDenied:
        return proc_head(read_stat(pid))


def _kernel_name(pid: int, name: str) -> str:
    """Return the kernel's name for a process: psutil lengthens one of 15 bytes from the command line."""
    return name if len(name.encode("utf-8", "replace")) < 15 else text_or("/proc/%d/comm" % pid, name)


def argv(pid: int) -> Any:
    """Return a process's arguments; raises OSError."""
    text = read_text("/proc/%d/cmdline" % pid)
    if not text:
        return []
    return text.removesuffix("\0").split("\0")


def cgroup(pid: int) -> Any:
    """Return the process's cgroup path: version 2's, else systemd's, else the first."""
    lines = [
        line.split(":", 2) for line in read_text("/proc/%d/cgroup" % pid).splitlines() if line.count(":") >= 2
    ]
    best = sorted(lines, key=lambda line: (line[0] != "0", line[1] != "name=systemd"))
    return best[0][2] if best else missing("the process has no cgroup", "not-found")


def environ_of(pid: int) -> dict[str, str]:
    """Return the launch marks in a process's environment; raises OSError."""
    items = (item.partition("=") for item in read_text("/proc/%d/environ" % pid).split("\0"))
    return {name: value for name, _, value in items if name in ENVIRON_KEYS}


def wchan(pid: int) -> str:
    """Return the kernel function that a process sleeps in, "" when it runs or the kernel does not tell."""
    text = read_text("/proc/%d/wchan" % pid)
    return "" if text == "0" else text


# Processes that NVML names but the walk had no reason to send: another user's, whose files may not be read.


def named_pids(answer: Json) -> set[int]:
    """Return pids that the driver lists on a GPU and the process table does not hold."""
    table, gpus = answer.get("processes"), answer.get("gpus")
    if not isinstance(table, dict) or "processes" not in table or not isinstance(gpus, list):
        return set()
    lists = [gpu["processes"] for gpu in gpus if isinstance(gpu["processes"], list)]
    have = {row["pid"] for row in table["processes"]}
    return {process["pid"] for processes in lists for process in processes} - have


def probe_named(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit the rows of the pids that only NVML names, and of those above them."""
    del ask
    psutil = import_psutil() if answer["processes"]["source"] == "psutil" else None
    rows: dict[int, Any] = {}
    have = {row["pid"] for row in answer["processes"]["processes"]}
    for named in named_pids(answer):
        pid = named
        while pid and pid not in rows and pid not in have:
            try:
                stat = read_stat(pid)
            except OSError:
                break  # not in this pid namespace, or gone
            rows[pid] = process_row(stat, fact(partial(gpu_files, stat)), psutil)
            pid = stat.ppid
    emit("named", [row for row in rows.values() if row is not None])


NAMED = Probe("named", probe_named, ("named",), 2.0)


def merge_named(answer: Json) -> None:
    """Put the rows of `probe_named` into the table."""
    rows = answer.pop("named", None)
    if isinstance(rows, list):
        table = answer["processes"]
        table["processes"] = sorted(table["processes"] + rows, key=lambda row: int(row["pid"]))


# Ports

_TCP_STATES = {
    "01": "ESTABLISHED",
    "02": "SYN_SENT",
    "03": "SYN_RECV",
    "04": "FIN_WAIT1",
    "05": "FIN_WAIT2",
    "06": "TIME_WAIT",
    "07": "CLOSE",
    "08": "CLOSE_WAIT",
    "09": "LAST_ACK",
    "0A": "LISTEN",
    "0B": "CLOSING",
    "0C": "SYN_RECV",
}
_MOST_SOCKETS = 256  # per host; a busy server has thousands of connections on its own port


def sockets_on(ports: tuple[int, ...]) -> list[Json]:
    """Return the TCP sockets on `ports`, of both families, with their inodes."""
    if not ports:
        return []
    wanted = "|".join("%04X" % port for port in ports)
    line = re.compile(
        r"^ *\d+: ([0-9A-F]+):(%s) \S+ ([0-9A-F]{2}) (?:\S+ +){3}(\d+) +\d+ (\d+)" % wanted, re.MULTILINE
    )
    rows = []
    for name in ("tcp", "tcp6"):
        for packed, port, state, uid, inode in line.findall(text_or("/proc/net/" + name)):
            rows.append(
                {
                    "port": int(port, 16),
                    "address": unpack_address(packed),
                    "state": _TCP_STATES.get(state, state),
                    "uid": int(uid),
                    "inode": inode,
                }
            )
    rows.sort(key=lambda row: (row["state"] != "LISTEN", row["port"]))
    return (bound_sockets(ports) + rows)[:_MOST_SOCKETS]


def unpack_address(packed: str) -> str:
    """Return an address of /proc/net/tcp{,6}: 32-bit words in the host's byte order."""
    import socket

    words = [bytes.fromhex(packed[at : at + 8]) for at in range(0, len(packed), 8)]
    data = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)


def bound_sockets(ports: tuple[int, ...]) -> list[Json]:
    """Return sockets that are bound and do not listen: only sock_diag shows them, from Linux 6.8 on."""
    import socket
    import struct

    rows = []
    for family in (socket.AF_INET, socket.AF_INET6):
        request = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 0, 0, 1 << 13)  # TCP_BOUND_INACTIVE
        try:
            messages = netlink_dump(4, 20, request)
        except OSError:
            continue
        for message in messages:
            port = struct.unpack_from("!H", message, 4)[0]
            if port in ports and len(message) >= 72:
                packed = message[8:12] if family == socket.AF_INET else message[8:24]
                uid, inode = struct.unpack_from("=II", message, 64)
                address = socket.inet_ntop(family, packed)
                rows.append(
                    {"port": port, "address": address, "state": "BOUND", "uid": uid, "inode": str(inode)}
                )
    return rows


def ports_fact(ask: Ask, rows: list[Json], walk: Walk) -> Json:
    """Return facts.Ports.

    The source is /proc even where psutil is there: psutil names one holder of a socket and a forked child
    that inherited it is another, and it would walk /proc a second time.
    """
    sockets = []
    for row in rows:
        holders: Any = sorted(walk.holders.get("socket:[%s]" % row["inode"], []))
        if not holders and walk.unreadable and row["inode"] != "0":
            holders = missing(
                "held by a process whose files only its owner or root may read", "no-permission"
            )
        sockets.append({**{key: row[key] for key in ("port", "address", "state", "uid")}, "pids": holders})
    ephemeral = ephemeral_range()
    return {
        "source": "proc",
        "sockets": sockets,
        "binds": [{"port": port, "ok": not error, "error": error} for port, error in bind_errors(ask.ports)],
        "free": free_ports(ask, ephemeral),
        "ephemeral": list(ephemeral),
    }


def bind_errors(ports: tuple[int, ...]) -> list[tuple[int, str]]:
    """Return each port with what stops a bind, "" when nothing does."""
    return [(port, bind_error(port)) for port in ports]


def bind_error(port: int) -> str:
    """Bind and listen as torch's store does (SO_REUSEADDR, both wildcards); return what failed, or "".

    Listening belongs to the test: two sockets with SO_REUSEADDR may both be bound while neither listens.
    """
    import socket

    wildcards = ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0"))  # noqa: S104 - what torch binds
    for family, wildcard in wildcards:
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # this family is switched off here
        with probe:
            try:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe.bind((wildcard, port))
                probe.listen(1)
            except OSError as error:
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue
                return "%s (%s)" % (error.strerror, wildcard)
            except OverflowError as error:
                return str(error)
    return ""


def ephemeral_range() -> tuple[int, int]:
    """Return net.ipv4.ip_local_port_range, the kernel's default where it cannot be read."""
    low, high = [*text_or("/proc/sys/net/ipv4/ip_local_port_range").split(), "32768", "60999"][:2]
    return int(low), int(high)


_FREE_FROM, _FREE_COUNT = 20000, 9000


def free_ports(ask: Ask, ephemeral: tuple[int, int]) -> list[int]:
    """Return ports proven free, the same ones for the same seed; ephemeral ones only where all are."""
    import hashlib

    if ask.free_ports <= 0:
        return []
    start = int.from_bytes(hashlib.sha256(ask.seed.encode()).digest()[:4], "big") % _FREE_COUNT
    window = [_FREE_FROM + (start + step) % _FREE_COUNT for step in range(_FREE_COUNT)]
    other = [*range(29000, 65536), *range(10000, 20000), *range(1024, 10000)]
    reserved = reserved_ports() | set(ask.ports)
    calm = [port for port in window + other if not ephemeral[0] <= port <= ephemeral[1]]
    found: list[int] = []
    for port in calm + (window if len(calm) < ask.free_ports else []):
        if port not in reserved and not bind_error(port):
            found.append(port)
            if len(found) >= ask.free_ports:
                break
    return found


def reserved_ports() -> set[int]:
    """Return net.ipv4.ip_local_reserved_ports."""
    ports: set[int] = set()
    for part in text_or("/proc/sys/net/ipv4/ip_local_reserved_ports").split(","):
        if part:
            low, _, high = part.partition("-")
            ports.update(range(int(low), int(high or low) + 1))
    return ports


# System

_MODULES = re.compile(
    r"^(nvidia\w*|nouveau|nova_core|gdrdrv|nv_peer_mem|vfio_pci|mlx[45]_\w+|ib_\w+|rdma_\w+|efa|gdr\w*|irdma)\b",
    re.MULTILINE,
)
_UNITS = ("nvidia-fabricmanager", "nvidia-persistenced")
_BETWEEN_LOOKS_S = 0.2


def service_states() -> dict[str, str]:
    """Return {unit: ActiveState} of the units that systemd knows; raises OSError without systemd."""
    if not os.path.isdir("/run/systemd/system"):
        raise FileNotFoundError(errno.ENOENT, "systemd does not run here")
    ran = run_command(["systemctl", "show", "-p", "Id", "-p", "LoadState", "-p", "ActiveState", *_UNITS], 3.0)
    states = {}
    for block in ran.text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("LoadState") not in ("not-found", None):
            states[values.get("Id", "").replace(".service", "")] = values.get("ActiveState", "")
    return states


def system_fact(walk: Walk, units: Any, started: float) -> Json:
    """Return facts.System; processes in state D are looked at a second time before they count as hung."""
    comms = {stat.comm for stat in walk.stats.values()}
    return {
        "modules": sorted(set(_MODULES.findall(text_or("/proc/modules")))),
        "fabric_manager": service("nvidia-fabricmanager", "nv-fabricmanager", units, comms),
        "persistence_daemon": service("nvidia-persistenced", "nvidia-persiste", units, comms),
        "mps_control": bool(comms & {"nvidia-cuda-mps", "nvidia-cuda-mps-control"}),
        "acs_enabled": fact(acs_enabled),
        "iommu": fact(iommu),
        "hung": hung(walk, started),
    }


def service(unit: str, comm: str, units: Any, comms: set[str]) -> Any:
    """Return a service's state: systemd's word, else whether its process is there."""
    if comm in comms:
        return "active"
    if "missing" in units:
        return missing("its process does not run, and %s" % units["missing"], "not-found")
    return units.get(unit) or missing("there is no unit %s" % unit, "not-found")


def hung(walk: Walk, started: float) -> list[str]:
    """Return "pid comm wchan" of processes in state D at both looks that used no CPU in between."""
    suspects = [stat for pid, stat in walk.stats.items() if stat.state == "D" and pid not in walk.kernel]
    if not suspects:
        return []
    time.sleep(max(0.0, started + _BETWEEN_LOOKS_S - time.monotonic()))
    found = []
    for before in suspects:
        try:
            after = read_stat(before.pid)
        except OSError:
            continue
        if after.state == "D" and after[-3:] == before[-3:]:
            found.append("%d %s %s" % (after.pid, after.comm, text_or("/proc/%d/wchan" % after.pid, "?")))
    return found


def acs_enabled() -> Any:
    """Return whether a PCI bridge redirects peer-to-peer traffic (ACS source validation on)."""
    if not pci_gpus():
        return missing("there is no NVIDIA device on the PCI bus", "not-found")
    seen = False
    for bus_id in os.listdir(_PCI):
        folder = "%s/%s" % (_PCI, bus_id)
        if not text_or(folder + "/class").startswith("0x0604"):
            continue
        with open(folder + "/config", "rb", buffering=0) as file:
            config = file.read(4096)
        if len(config) <= 256:
            return missing("PCI bridges' extended configuration is for root", "no-permission")
        seen = True
        if acs_control(config) & 1:
            return True
    return False if seen else missing("no PCI bridge is visible", "not-found")


def acs_control(config: bytes) -> int:
    """Return the ACS control register of a PCI device's configuration space, 0 without ACS."""
    at, steps = 0x100, 0
    while at and at + 8 <= len(config) and steps < 64:
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == 0x0D:
            return int.from_bytes(config[at + 6 : at + 8], "little")
        at, steps = header >> 20, steps + 1
    return 0


def iommu() -> Any:
    """Return "off", or how the IOMMU treats devices: "passthrough" or "translated"."""
    groups = "/sys/kernel/iommu_groups"
    if not os.path.isdir(groups) or not os.listdir(groups):
        return "off"
    kinds = {text_or("%s/%s/type" % (groups, group)) for group in os.listdir(groups)}
    return "passthrough" if kinds == {"identity"} else "translated"


# ---------------------------------------------------------------------------------------------------------
# Paths and script: a network file system may hang on any of them


_ROLES = ("workdir", "output", "hf_cache", "tmp", "script", "run_dir")


def probe_paths(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit facts.PathFacts for each asked path, each in a thread of its own."""
    del answer
    import threading

    mounts = mount_points()
    threads = []
    for role, path in asked_paths(ask).items():
        emit("paths", role, "mount", mount_of(resolve(path), mounts))

        def look_at(role: str = role, path: str = path) -> None:
            emit("paths", role, "facts", fact(lambda: path_facts(role, path, mounts)))

        threads.append(threading.Thread(target=look_at, daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join()
    if not threads:
        emit("paths", {})


def asked_paths(ask: Ask) -> dict[str, str]:
    """Return {role: path} with the defaults of the roles that have one."""
    paths = {role: path for role, path in ask.paths.items() if role in _ROLES}
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    defaults = {"hf_cache": home, "tmp": os.environ.get("TMPDIR") or "/tmp"}  # noqa: S108 - asked about, not used
    return {role: path or defaults.get(role, "") for role, path in paths.items() if path or role in defaults}


def resolve(path: str) -> str:
    """Return `path` made absolute from the home directory, without touching the file system."""
    home = os.path.expanduser("~")
    return os.path.normpath(os.path.join(home, os.path.expanduser(os.path.expandvars(path))))


def mount_points() -> list[tuple[str, str, str]]:
    """Return (folder, file system, source) of each mount, in mount order."""
    found = []
    for line in text_or("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) > 4 and len(kind) > 1:
            found.append((_unescape(fields[4]), kind[0], _unescape(kind[1])))
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def mount_of(path: str, mounts: list[tuple[str, str, str]]) -> Json:
    """Return file system and source of the deepest, latest mount over `path`."""
    best = ("", "", "")
    for mount in mounts:
        folder = mount[0].rstrip("/") + "/"
        if (path + "/").startswith(folder) and len(mount[0]) >= len(best[0]):
            best = mount
    unknown = missing("no mount covers it", "not-found")
    return {"resolved": path, "filesystem": best[1] or unknown, "source": best[2] or unknown}


def path_facts(role: str, path: str, mounts: list[tuple[str, str, str]]) -> Json:
    """Return facts.PathFacts; may hang for as long as the file system does."""
    resolved = os.path.realpath(resolve(path))
    exists = os.path.exists(resolved)
    nearest = resolved
    while not os.path.exists(nearest) and nearest != "/":
        nearest = os.path.dirname(nearest)
    room = fact(lambda: os.statvfs(nearest))
    lacking = isinstance(room, dict)
    inodes = missing("the file system does not count inodes", "not-supported")
    if not lacking and room.f_files:
        inodes = round(100.0 * room.f_favail / room.f_files, 2)
    return {
        "role": role,
        "path": path,
        **mount_of(resolved, mounts),
        "exists": exists,
        # A directory is wanted below `nearest`, which a plain file in the way does not allow even to root.
        "writable": os.access(nearest, os.W_OK | (os.X_OK if os.path.isdir(nearest) else 0))
        and (nearest == resolved or os.path.isdir(nearest)),
        "free_mib": room if lacking else room.f_bavail * room.f_frsize >> 20,
        "total_mib": room if lacking else room.f_blocks * room.f_frsize >> 20,
        "free_inodes_percent": room if lacking else inodes,
    }


def assemble_paths(parts: Any, ask: Ask) -> Any:
    """Return the list of PathFacts; a path that did not answer says so in its free space."""
    if not isinstance(parts, dict) or "missing" in parts:
        return parts
    found = []
    for role, path in asked_paths(ask).items():
        part = parts.get(role) or {}
        facts = part.get("facts")
        if isinstance(facts, dict) and "missing" not in facts:
            found.append(facts)
            continue
        excuse = facts or parts.get(PARTS) or part.get(PARTS) or missing("the paths probe ended early")
        mount = part.get("mount") or {"resolved": resolve(path), "filesystem": excuse, "source": excuse}
        blank = {"exists": False, "writable": False}
        sizes = dict.fromkeys(("free_mib", "total_mib", "free_inodes_percent"), excuse)
        found.append({"role": role, "path": path, **mount, **blank, **sizes})
    return found


_MOST_SCRIPT = 512 << 10


def probe_script(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit facts.ScriptFacts of the training script."""
    del answer
    import hashlib

    if not ask.script:
        emit("script", missing("the request names no script", "not-asked"))
        return
    path = os.path.join(resolve(ask.paths.get("workdir") or "~"), os.path.expanduser(ask.script))
    with open(path, "rb") as file:
        data = file.read(_MOST_SCRIPT + 1)
        digest = hashlib.sha256(data)
        size = len(data)
        while size > _MOST_SCRIPT:
            part = file.read(1 << 20)
            if not part:
                break
            digest.update(part)
            size += len(part)
    text: Any = data.decode("utf-8", "replace")
    if size > _MOST_SCRIPT:
        text = missing("the script has %d bytes; up to %d are sent" % (size, _MOST_SCRIPT), "not-supported")
    emit("script", {"path": path, "sha256": digest.hexdigest(), "size": size, "text": text})


# ---------------------------------------------------------------------------------------------------------
# Kernel log


def probe_kernel_log(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit facts.KernelLog from the first source that may be read."""
    del ask, answer
    try:
        records = read_kmsg()
    except OSError as error:
        refused = str(error)
    else:
        emit("kernel_log", {"source": "kmsg", **parse_kernel_log(records)})
        return
    for source, argv in (
        ("journal", ["journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic"]),
        ("dmesg", ["dmesg"]),
    ):
        try:
            ran = run_command(argv, 4.0)
        except OSError:
            continue
        if ran.status == 0 and ran.text:
            emit("kernel_log", {"source": source, **parse_kernel_log(ran.text)})
            return
    emit(
        "kernel_log",
        missing("neither /dev/kmsg, journalctl nor dmesg may be read: %s" % refused, "no-permission"),
    )


def read_kmsg() -> str:
    """Return the kernel's ring buffer; raises OSError (EPERM where dmesg is restricted)."""
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    records = []
    try:
        while True:
            try:
                records.append(os.read(fd, 8192))
            except BlockingIOError:
                return b"".join(records).decode("utf-8", "replace")
            except OSError as error:
                if (
                    error.errno != errno.EPIPE
                ):  # EPIPE: the record was overwritten meanwhile; the next follows
                    raise
    finally:
        os.close(fd)


_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)(.*)")
_OOM = re.compile(r"\b(Out of memory|Memory cgroup out of memory|oom-kill|Killed process \d+)")
_OTHER = re.compile(
    r"fallen off the bus|\bSXid\b|nvidia[-_]peermem.*(error|fail|invalid)|API mismatch|RmInitAdapter failed"
    r"|GSP.*(time-?out|error)|Timeout .*GSP|NVRM:.*(fail|error|lost|shutdown|unable)|limited by .*PCIe"
    r"|blocked for more than \d+ seconds|available PCIe bandwidth, limited",
    re.IGNORECASE,
)
_KMSG = re.compile(r"^\d+,\d+,(\d+),[^;]*;")
_STAMP = re.compile(r"\[\s*(\d+\.\d+)\]")
_MOST_LINES = 200
_MOST_WIDTH = 400


def parse_kernel_log(text: str) -> Json:
    """Return xids, oom_kills and other of facts.KernelLog, the newest 200 of each.

    Takes dmesg (with seconds, dates or none), /dev/kmsg records, journalctl -k and syslog lines.
    """
    xids: list[Json] = []
    oom_kills: list[str] = []
    other: list[str] = []
    for line in text.split("\n"):
        xid = _XID.search(line) if "Xid" in line else None
        if xid:
            xids.append(
                {
                    "code": int(xid.group(2)),
                    "pci_bus_id": pci_bus_id(xid.group(1)),
                    "at_uptime_s": uptime_of(line),
                    "text": _clip(xid.group(0)),
                }
            )
        elif _OOM.search(line) and "Kill" in line:
            oom_kills.append(_clip(_body(line)))
        elif _OTHER.search(line):
            other.append(_clip(_body(line)))
    return {"xids": xids[-_MOST_LINES:], "oom_kills": oom_kills[-_MOST_LINES:], "other": other[-_MOST_LINES:]}


def uptime_of(line: str) -> Any:
    """Return the seconds since boot that a log line carries."""
    kmsg = _KMSG.match(line)
    if kmsg:
        return int(kmsg.group(1)) / 1e6
    stamp = _STAMP.search(line)
    return float(stamp.group(1)) if stamp else missing("the line has no time since boot", "not-found")


def _body(line: str) -> str:
    return _KMSG.sub("", line).strip()


def _clip(text: str) -> str:
    return text if len(text) <= _MOST_WIDTH else text[: _MOST_WIDTH - 3] + "..."


def pci_bus_id(text: str) -> str:
    """Return a bus id as /sys names it, "0000:3b:00.0", from the form of NVML or of the kernel log."""
    match = re.fullmatch(
        r"(?:([0-9a-fA-F]{4,16}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?", text.strip()
    )
    if match is None:
        return text.strip().lower()
    domain, bus, device, function = match.groups()
    return "%04x:%02x:%02x.%s" % (int(domain or "0", 16), int(bus, 16), int(device, 16), function or "0")


# ---------------------------------------------------------------------------------------------------------
# GPUs by NVML


_NVML_FOLDERS = (
    "/usr/lib/wsl/lib/",
    "/usr/local/nvidia/lib64/",
    "/usr/lib64-nvidia/",
    "/run/opengl-driver/lib/",
)
_NVML_NAME = "libnvidia-ml.so.1"
_NVML_CODES = {
    1: "not-loaded",
    3: "not-supported",
    4: "no-permission",
    6: "not-found",
    9: "not-loaded",
    10: "timeout",
    12: "no-library",
    13: "not-supported",
    15: "gpu-lost",
    16: "reset-required",
    18: "library-mismatch",
    28: "gpu-lost",
}


def probe_gpus(ask: Ask, emit: Emit, answer: Json) -> None:
    """Emit driver and gpus: by NVML where its library is, else by nvidia-smi."""
    del answer
    refused = load_nvml()
    if refused or ask.pynvml is None:
        smi_gpus(emit, refused or "no pynvml came with the request")
        return
    nv = import_pynvml(ask.pynvml)
    try:
        nv.nvmlInit()
    except nv.NVMLError as error:
        excuse = nvml_missing(error)
        excuse["missing"] += driver_file_hint()
        emit("driver", excuse)
        emit("gpus", excuse)
        return
    emit("driver", fact_nvml(nv, lambda: nvml_driver(nv)))
    count = fact_nvml(nv, nv.nvmlDeviceGetCount)
    if isinstance(count, dict):
        emit("gpus", count)
        return
    if count == 0:
        emit("gpus", missing("the driver is loaded and lists no GPU", "no-devices"))
        return
    emit("gpus", "count", count)
    import threading

    # A thread per GPU: ctypes lets go of the interpreter in each call, so that a GPU that hangs costs the
    # others nothing.
    threads = [threading.Thread(target=nvml_gpu, args=(nv, i, emit), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def load_nvml() -> str:
    """Load NVML's library; return why it cannot be, or ""."""
    import ctypes

    refused = ""
    for folder in ("", *_NVML_FOLDERS):
        if folder and not os.path.exists(folder + _NVML_NAME):
            continue
        try:
            ctypes.CDLL(folder + _NVML_NAME)  # pynvml then gets this one by its soname
        except OSError as error:
            refused = refused or str(error)
        else:
            return ""
    return refused


def import_pynvml(packed: bytes) -> Any:
    """Return pynvml as a module made of the source that came with the request."""
    import types
    import zlib

    module: Any = types.ModuleType("pynvml")
    sys.modules["pynvml"] = module
    source = zlib.decompress(packed).decode("utf-8")
    exec(compile(source, "pynvml.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - sent by the client
    return module


def nvml_missing(error: Any) -> Json:
    """Return the absent fact that an NVMLError stands for."""
    return missing("NVML: %s" % error, _NVML_CODES.get(int(error.value), "error"))


def fact_nvml(nv: Any, read: Callable[[], Any]) -> Any:
    """Return what `read` returns, or the reason NVML gave."""
    try:
        return read()
    except nv.NVMLError as error:
        return nvml_missing(error)
    except Exception as error:
        return because(error)


def driver_file_hint() -> str:
    """Return what the kernel module says of itself, for a message."""
    match = re.search(r"Kernel Module.*?(\d+\.\d+[.\d]*)", text_or("/proc/driver/nvidia/version"))
    return (
        "; the loaded kernel module is %s" % match.group(1)
        if match
        else "; no NVIDIA kernel module is loaded"
    )


def nvml_driver(nv: Any) -> Json:
    """Return facts.Driver."""
    cuda = fact_nvml(nv, nv.nvmlSystemGetCudaDriverVersion_v2)
    return {
        "version": as_text(nv.nvmlSystemGetDriverVersion()),
        "cuda_version": cuda if isinstance(cuda, dict) else "%d.%d" % (cuda // 1000, cuda % 1000 // 10),
        "source": "nvml",
    }


def as_text(value: Any) -> str:
    """Return text; pynvml's versions differ in bytes and str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def nvml_gpu(nv: Any, index: int, emit: Emit) -> None:
    """Emit every field of one GPU as soon as it is known; a lost one keeps its index."""
    try:
        handle = nv.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:
        excuse = nvml_missing(error) if isinstance(error, nv.NVMLError) else because(error)
        for name, _ in GPU_FIELDS:
            emit("gpus", index, name, excuse)
        return
    for name, read in GPU_FIELDS:
        emit("gpus", index, name, fact_nvml(nv, lambda read=read: read(nv, handle)))  # type: ignore[misc]


def _mode(nv: Any, gpu: Any) -> Any:
    mode = nv.nvmlDeviceGetComputeMode(gpu)
    return COMPUTE_MODES.get(mode) or missing("NVML gave compute mode %s" % mode)


COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}


_NO_RESERVE = "no reserve is shown; used memory may include it"  # NVML v1, drivers before 510


def _memory(nv: Any, gpu: Any) -> Json:
    try:
        memory = nv.nvmlDeviceGetMemoryInfo(gpu, version=nv.nvmlMemory_v2)
        reserved: Any = int(memory.reserved) >> 20
    except nv.NVMLError as error:
        if error.value not in (2, 3, 13, 25):  # invalid or unsupported argument, function or struct version
            raise
        memory = nv.nvmlDeviceGetMemoryInfo(gpu)
        reserved = missing(_NO_RESERVE, "not-supported")
    total, used, free = (int(value) >> 20 for value in (memory.total, memory.used, memory.free))
    return {"total_mib": total, "used_mib": used, "free_mib": free, "reserved_mib": reserved}


_PROCESS_CALLS = (
    ("compute", "nvmlDeviceGetComputeRunningProcesses"),
    ("mps", "nvmlDeviceGetMPSComputeRunningProcesses"),
    ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
)


def _processes(nv: Any, gpu: Any) -> list[Json]:
    found: dict[tuple[int, str], Json] = {}
    for kind, call in _PROCESS_CALLS:
        try:
            listed = _running(nv, gpu, call)
        except nv.NVMLError as error:
            if kind != "compute" and error.value in (2, 3, 13, 25):
                continue
            raise
        for process in listed:
            pid, used = int(process.pid), process.usedGpuMemory
            if kind == "graphics" and (pid, "compute") in found:
                continue  # nvidia-smi's "C+G": one process, its memory counted once
            known = used is not None and int(used) != 0xFFFFFFFFFFFFFFFF
            found[pid, kind] = {
                "pid": pid,
                "kind": kind,
                "used_mib": int(used) >> 20 if known else missing("the driver does not say", "not-supported"),
                "name": fact_nvml(nv, lambda pid=pid: as_text(nv.nvmlSystemGetProcessName(pid))),  # type: ignore[misc]
            }
    return sorted(found.values(), key=lambda process: int(process["pid"]))


def _running(nv: Any, gpu: Any, call: str) -> Any:
    """Call the newest version of a process list that this driver has."""
    for version in ("_v3", "_v2"):
        try:
            return getattr(nv, call + version)(gpu)
        except nv.NVMLError as error:
            if error.value != 13:
                raise
    return _running_v1(nv, gpu, call)


def _running_v1(nv: Any, gpu: Any, call: str) -> list[Any]:
    """Call the list of drivers before 450, whose entries have pid and memory only."""
    import ctypes

    class Entry(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong)]

    function = getattr(nv.nvmlLib, call, None)
    if function is None:
        raise nv.NVMLError(13)
    entries = (Entry * 1024)()
    count = ctypes.c_uint(1024)
    code = function(gpu, ctypes.byref(count), entries)
    if code:
        raise nv.NVMLError(code)
    return list(entries[: count.value])


def _ecc(nv: Any, gpu: Any) -> Json:
    def count(kind: int, since: int) -> Any:
        return fact_nvml(nv, lambda: int(nv.nvmlDeviceGetTotalEccErrors(gpu, kind, since)))

    return {
        "enabled": bool(nv.nvmlDeviceGetEccMode(gpu)[0]),
        "corrected_volatile": count(0, 0),
        "uncorrected_volatile": count(1, 0),
        "uncorrected_aggregate": count(1, 1),
    }


def _remap(nv: Any, gpu: Any) -> Json:
    correctable, uncorrectable, pending, failed = nv.nvmlDeviceGetRemappedRows(gpu)
    counts = {"correctable": int(correctable), "uncorrectable": int(uncorrectable)}
    return {**counts, "pending": bool(pending), "failed": bool(failed)}


def _retired(nv: Any, gpu: Any) -> Json:
    return {
        "single_bit": len(nv.nvmlDeviceGetRetiredPages(gpu, 0)),
        "double_bit": len(nv.nvmlDeviceGetRetiredPages(gpu, 1)),
        "pending": fact_nvml(nv, lambda: bool(nv.nvmlDeviceGetRetiredPagesPendingStatus(gpu))),
    }


_THROTTLE = (
    (0x1, "idle"),
    (0x2, "applications_clocks"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clocks"),
)


def _throttle(nv: Any, gpu: Any) -> list[str]:
    try:
        mask = int(nv.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    except nv.NVMLError as error:
        if error.value != 13:
            raise
        mask = int(nv.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))  # its name before driver 535
    return [name for bit, name in _THROTTLE if mask & bit]


def _pcie(nv: Any, gpu: Any) -> Json:
    return {
        "generation": int(nv.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
        "generation_max": int(nv.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
        "width": int(nv.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
        "width_max": int(nv.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
    }


_MOST_NVLINKS = 18


def _nvlinks(nv: Any, gpu: Any) -> Any:
    links = []
    for link in range(_MOST_NVLINKS):
        try:
            active = bool(nv.nvmlDeviceGetNvLinkState(gpu, link))
        except nv.NVMLError as error:
            if error.value not in (2, 3):  # this GPU has no such link
                raise
            continue
        errors = fact_nvml(nv, lambda link=link: _nvlink_errors(nv, gpu, link)) if active else 0  # type: ignore[misc]
        links.append({"link": link, "active": active, "errors": errors})
    return links or missing("this GPU has no NVLink", "not-supported")


def _nvlink_errors(nv: Any, gpu: Any, link: int) -> int:
    return sum(int(nv.nvmlDeviceGetNvLinkErrorCounter(gpu, link, counter)) for counter in range(4))


FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}


def _fabric(nv: Any, gpu: Any) -> Any:
    import ctypes

    info = nv.c_nvmlGpuFabricInfoV_t()
    nv.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    state = FABRIC_STATES.get(int(info.state), "not_supported")
    if state == "not_supported":
        return missing("this GPU is not part of an NVSwitch fabric", "not-supported")
    status = "success" if not info.status else as_text(nv.nvmlErrorString(info.status)).lower()
    return {"state": state, "status": status if state == "completed" else "n/a"}


RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu_reset",
    2: "node_reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex",
    6: "bus_reset",
    7: "system_reboot",
}
_FIELD_RECOVERY_ACTION = 230


def _recovery(nv: Any, gpu: Any) -> Any:
    value = nv.nvmlDeviceGetFieldValues(gpu, [_FIELD_RECOVERY_ACTION])[0]
    if value.nvmlReturn:
        raise nv.NVMLError(value.nvmlReturn)
    number = int(value.value.uiVal)
    return RECOVERY_ACTIONS.get(number, "action_%d" % number)


GPU_FIELDS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    # What a launch is decided by comes first: should a later call hang, these have been sent.
    ("uuid", lambda nv, gpu: as_text(nv.nvmlDeviceGetUUID(gpu))),
    ("minor", lambda nv, gpu: int(nv.nvmlDeviceGetMinorNumber(gpu))),
    ("name", lambda nv, gpu: as_text(nv.nvmlDeviceGetName(gpu))),
    ("pci_bus_id", lambda nv, gpu: pci_bus_id(as_text(nv.nvmlDeviceGetPciInfo(gpu).busId))),
    ("capability", lambda nv, gpu: [int(part) for part in nv.nvmlDeviceGetCudaComputeCapability(gpu)]),
    ("compute_mode", _mode),
    ("memory", _memory),
    ("processes", _processes),
    ("mig_enabled", lambda nv, gpu: bool(nv.nvmlDeviceGetMigMode(gpu)[0])),
    ("utilization_percent", lambda nv, gpu: int(nv.nvmlDeviceGetUtilizationRates(gpu).gpu)),
    ("persistence", lambda nv, gpu: bool(nv.nvmlDeviceGetPersistenceMode(gpu))),
    ("recovery_action", _recovery),
    ("ecc", _ecc),
    ("remap", _remap),
    ("retired_pages", _retired),
    ("temperature_c", lambda nv, gpu: int(nv.nvmlDeviceGetTemperature(gpu, 0))),
    ("temperature_slowdown_c", lambda nv, gpu: int(nv.nvmlDeviceGetTemperatureThreshold(gpu, 1))),
    ("throttle", _throttle),
    ("power_w", lambda nv, gpu: nv.nvmlDeviceGetPowerUsage(gpu) / 1000.0),
    ("power_limit_w", lambda nv, gpu: nv.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000.0),
    ("clock_sm_mhz", lambda nv, gpu: int(nv.nvmlDeviceGetClockInfo(gpu, 1))),
    ("clock_sm_max_mhz", lambda nv, gpu: int(nv.nvmlDeviceGetMaxClockInfo(gpu, 1))),
    ("pcie", _pcie),
    ("fabric", _fabric),
    ("nvlinks", _nvlinks),
)
"""Every field of facts.Gpu but the index, and how NVML is asked."""


def assemble_gpus(parts: Any) -> Any:
    """Return the list of GPUs out of the parts that came; a part that did not come says why."""
    if not isinstance(parts, dict) or "count" not in parts:
        return parts
    gpus = []
    for index in range(parts["count"]):
        part = parts.get(str(index), {})
        excuse = parts[PARTS] or missing("the probe ended before this was read")
        gpus.append({"index": index, **{name: part.get(name, excuse) for name, _ in GPU_FIELDS}})
    return gpus


# ---------------------------------------------------------------------------------------------------------
# GPUs by nvidia-smi. preflight/smi.py reads saved recordings with the same functions.


def smi_gpus(emit: Emit, refused: str) -> None:
    """Emit driver and gpus from `nvidia-smi -q -x`."""
    try:
        ran = run_command(["nvidia-smi", "-q", "-x"], 12.0)
    except FileNotFoundError:
        excuse = missing(
            "NVML cannot be loaded (%s) and there is no nvidia-smi: no NVIDIA driver is installed%s"
            % (refused, driver_file_hint()),
            "no-library",
        )
        emit("driver", excuse)
        emit("gpus", excuse)
        return
    if ran.status is None:
        excuse = missing("nvidia-smi did not answer within 12 s", "timeout")
    else:
        excuse = smi_error(ran.text) or missing(
            "nvidia-smi exited %s: %s" % (ran.status, _clip(ran.text.strip()))
        )
    at = ran.text.find("<nvidia_smi_log")
    if ran.status is None or at < 0:
        emit("driver", excuse)
        emit("gpus", excuse)
        return
    tree = xml_tree(ran.text[at:])
    emit("driver", tree_driver(tree, "nvidia-smi"))
    emit("gpus", tree_gpus(tree) or missing("the driver is loaded and lists no GPU", "no-devices"))


_SMI_ERRORS = (
    (r"version mismatch", "library-mismatch"),
    (r"couldn't communicate with the NVIDIA driver|Driver Not Loaded", "not-loaded"),
    (r"No devices were found", "no-devices"),
    (r"is lost|fallen off the bus", "gpu-lost"),
    (r"reset required|requires? reset", "reset-required"),
    (r"Insufficient Permissions", "no-permission"),
    (r"couldn't find libnvidia-ml|NVIDIA driver is not installed|command not found", "no-library"),
    (r"Failed to initialize NVML|Unable to determine the device handle", "error"),
)


def smi_error(text: str) -> Optional[Json]:
    """Return the absent fact that nvidia-smi's own words stand for, None where these are no such words."""
    for pattern, code in _SMI_ERRORS:
        if re.search(pattern, text, re.IGNORECASE):
            return missing("nvidia-smi: " + _clip(" ".join(text.split())), code)
    return None


def xml_tree(text: str) -> Json:
    """Return an XML document of nvidia-smi as nested dicts; a tag that comes again makes a list.

    Raises ValueError where the text is not well-formed or defines entities (no recording does; bombs do).
    """
    from xml.etree import ElementTree as ET

    if "<!ENTITY" in text:
        raise ValueError("the XML defines entities, which nvidia-smi never does")
    text = re.sub(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
    end = text.rfind("</nvidia_smi_log>")
    try:
        root = ET.fromstring(text[: end + len("</nvidia_smi_log>")] if end >= 0 else text)  # noqa: S314
    except ET.ParseError as error:
        raise ValueError("the XML is cut or malformed: %s" % error) from None
    if root.tag != "nvidia_smi_log":
        raise ValueError("the XML is not nvidia-smi's: its root is <%s>" % root.tag[:40])
    tree = _element(root)
    return tree if isinstance(tree, dict) else {}


_DEEPEST = 40  # nvidia-smi nests seven deep


def _element(element: Any, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise ValueError("the XML is nested deeper than nvidia-smi's")
    if len(element) == 0:
        return (element.text or "").strip()
    tree: Json = {}
    if element.get("id"):
        tree["@id"] = element.get("id")
    for child in element:
        value = _element(child, depth + 1)
        if child.tag not in tree:
            tree[child.tag] = value
        elif isinstance(tree[child.tag], list):
            tree[child.tag].append(value)
        else:
            tree[child.tag] = [tree[child.tag], value]
    return tree


def find(tree: Any, *paths: str) -> Optional[str]:
    """Return the text at the first of `paths` ("a/b/c") that has one, best one with a value, else None."""
    texts = []
    for path in paths:
        here = tree
        for step in path.split("/"):
            here = here.get(step) if isinstance(here, dict) else None
        if isinstance(here, str):
            texts.append(here)
    return next((text for text in texts if text not in ("N/A", "[N/A]")), texts[0] if texts else None)


NOT_HELD = missing("the file does not hold it", "not-asked")
_NOT_A_VALUE = (
    (
        re.compile(
            r"\[?(N/?A|Not Supported|Not Available|Requested functionality has been deprecated)\]?",
            re.IGNORECASE,
        ),
        "not-supported",
    ),
    (re.compile(r"\[?(GPU is lost|GPU_?LOST)\.?\]?", re.IGNORECASE), "gpu-lost"),
    (
        re.compile(r"\[?(GPU requires reset|Reset Required|GPU_?RESET_?REQUIRED)\.?\]?", re.IGNORECASE),
        "reset-required",
    ),
    (re.compile(r"\[?Insufficient Permissions\]?", re.IGNORECASE), "no-permission"),
    (re.compile(r"\[?(Unknown Error|ERR!|Error|Unknown|Not Found|)\]?", re.IGNORECASE), "error"),
)


def value_of(text: Optional[str], convert: Callable[[str], Any]) -> Any:
    """Return `convert(text)`, or why there is no value."""
    if text is None:
        return NOT_HELD
    for pattern, code in _NOT_A_VALUE:
        if pattern.fullmatch(text):
            return missing("nvidia-smi printed %r" % text, code)
    try:
        return convert(text)
    except (ValueError, KeyError):
        return missing("nvidia-smi printed %r" % _clip(text))


def number(text: str) -> float:
    """Return the leading number of "81559 MiB", "38 C", "16x"; raises ValueError."""
    match = re.match(r"\s*(-?\d{1,15}(?:\.\d{1,15})?)(?!\d)", text)
    if match is None:
        raise ValueError(text)
    return float(match.group(1))


def dotted(text: str) -> str:
    """Return the version number that `text` begins with; later words are nvidia-smi's remarks on the key."""
    match = re.match(r"\d+(\.\d+)+", text)
    if match is None:
        raise ValueError(text)
    return match.group(0)


def whole(text: str) -> int:
    """Return the leading whole number; raises ValueError."""
    return int(number(text))


def yes(text: str) -> bool:
    """Return the truth of nvidia-smi's words; raises KeyError for others."""
    words = {"enabled": True, "yes": True, "on": True, "disabled": False, "no": False, "off": False}
    return words[text.strip().lower()]


def tree_driver(tree: Json, source: str) -> Json:
    """Return facts.Driver out of a tree of nvidia-smi, Missing where it names no driver."""
    version = value_of(find(tree, "kmd_version", "driver_version"), dotted)
    if isinstance(version, dict):
        return version
    cuda = value_of(find(tree, "cuda_umd_version", "cuda_version"), dotted)
    return {"version": version, "cuda_version": cuda, "source": source}


def tree_gpus(tree: Json) -> list[Json]:
    """Return the GPUs of a tree of nvidia-smi, in its order, which is NVML's."""
    gpus = tree.get("gpu", [])
    return [
        tree_gpu(gpu, index)
        for index, gpu in enumerate(gpus if isinstance(gpus, list) else [gpus])
        if isinstance(gpu, dict)
    ]


_POWER_DRAWS = tuple(
    "%s/%s" % (group, key)
    for key in ("average_power_draw", "power_draw", "instant_power_draw", "instantaneous_power_draw")
    for group in ("gpu_power_readings", "power_readings")
)


def tree_gpu(gpu: Json, index: int) -> Json:
    """Return facts.Gpu out of one GPU's part of nvidia-smi's XML, or of its text with keys made alike."""

    def at(convert: Callable[[str], Any], *paths: str) -> Any:
        return value_of(find(gpu, *paths), convert)

    name = at(str, "product_name")
    return {
        "index": index,
        "uuid": at(str, "uuid", "gpu_uuid"),
        "minor": at(whole, "minor_number"),
        "name": name,
        "pci_bus_id": at(pci_bus_id, "pci/pci_bus_id", "pci/bus_id", "@id"),
        "capability": tree_capability(gpu, name),
        "compute_mode": at(mode_word, "compute_mode"),
        "memory": tree_memory(gpu),
        "processes": tree_processes(gpu),
        "utilization_percent": at(whole, "utilization/gpu_util", "utilization/gpu"),
        "persistence": at(yes, "persistence_mode"),
        "mig_enabled": at(yes, "mig_mode/current_mig", "mig_mode/current"),
        "ecc": tree_ecc(gpu),
        "remap": tree_remap(gpu),
        "retired_pages": tree_retired(gpu),
        "temperature_c": at(whole, "temperature/gpu_temp", "temperature/gpu_current_temp"),
        "temperature_slowdown_c": at(
            whole, "temperature/gpu_temp_slow_threshold", "temperature/gpu_slowdown_temp"
        ),
        "throttle": tree_throttle(gpu),
        "power_w": at(number, *_POWER_DRAWS),
        "power_limit_w": at(
            number,
            "gpu_power_readings/current_power_limit",
            "gpu_power_readings/gpu_ceiling_power_limit/current_power_limit",
            "power_readings/enforced_power_limit",
            "power_readings/power_limit",
        ),
        "clock_sm_mhz": at(whole, "clocks/sm_clock", "clocks/sm"),
        "clock_sm_max_mhz": at(whole, "max_clocks/sm_clock", "max_clocks/sm"),
        "pcie": tree_pcie(gpu),
        "nvlinks": NOT_HELD,
        "fabric": tree_fabric(gpu),
        "recovery_action": tree_recovery(gpu),
    }


def mode_word(text: str) -> str:
    """Return a compute mode of facts.ComputeMode; raises KeyError."""
    words = {
        "default": "default",
        "prohibited": "prohibited",
        "exclusive process": "exclusive_process",
        "e. process": "exclusive_process",
        "exclusive thread": "exclusive_thread",
        "e. thread": "exclusive_thread",
    }
    return words[text.strip().lower().replace("_", " ")]


def all_or_first_missing(values: Json) -> Any:
    """Return `values`, or the first of them that is missing."""
    return next((value for value in values.values() if isinstance(value, dict)), values)


def tree_memory(gpu: Json) -> Any:
    """Return facts.GpuMemory; "used" includes the reserve where none is printed (drivers before 510)."""
    group = "fb_memory_usage/"
    values = {name + "_mib": value_of(find(gpu, group + name), whole) for name in ("total", "used", "free")}
    whole_memory = all_or_first_missing(values)
    if whole_memory is not values:
        return whole_memory
    reserved = value_of(find(gpu, group + "reserved"), whole)
    if reserved == NOT_HELD:
        reserved = missing(_NO_RESERVE, "not-supported")
    return {**values, "reserved_mib": reserved}


def tree_processes(gpu: Json) -> Any:
    """Return the list of facts.ComputeProcess."""
    group = gpu.get("processes")
    if group is None:
        return NOT_HELD
    if isinstance(group, str):
        return (
            []
            if group in ("", "None")
            else value_of(group, lambda text: missing("nvidia-smi printed %r" % _clip(text)))
        )
    listed = group.get("process_info", [])
    found = []
    for process in listed if isinstance(listed, list) else [listed]:
        pid = value_of(find(process, "pid"), whole)
        if not isinstance(pid, int):
            continue
        kind = find(process, "type") or "C"
        used = value_of(find(process, "used_memory", "used_gpu_memory"), whole)
        found += [
            {
                "pid": pid,
                "kind": "mps" if kind.startswith("M") else "compute" if "C" in kind else "graphics",
                "used_mib": used,
                "name": value_of(find(process, "process_name", "name"), str),
            }
        ]
    return sorted(found, key=lambda process: int(process["pid"]))


def tree_ecc(gpu: Json) -> Any:
    """Return facts.Ecc: the totals of drivers before 450, the sums over memories of later ones."""
    enabled = value_of(find(gpu, "ecc_mode/current_ecc", "ecc_mode/current"), yes)
    if isinstance(enabled, dict):
        return enabled

    def total(since: str, word: str, old: str) -> Any:
        group = (gpu.get("ecc_errors") or {}).get(since) if isinstance(gpu.get("ecc_errors"), dict) else None
        if not isinstance(group, dict):
            return NOT_HELD
        texts = [
            text
            for key, text in group.items()
            if re.match(r"[sd]ram_%s" % word, key) and isinstance(text, str)
        ]
        old_total = find(group, old + "/total")
        values = [value_of(text, whole) for text in texts or ([old_total] if old_total is not None else [])]
        known = [value for value in values if isinstance(value, int)]
        return sum(known) if known else (values[0] if values else NOT_HELD)

    return {
        "enabled": enabled,
        "corrected_volatile": total("volatile", "correctable", "single_bit"),
        "uncorrected_volatile": total("volatile", "uncorrectable", "double_bit"),
        "uncorrected_aggregate": total("aggregate", "uncorrectable", "double_bit"),
    }


def tree_remap(gpu: Json) -> Any:
    """Return facts.RowRemap."""
    if isinstance(gpu.get("remapped_rows"), str):
        return value_of(gpu["remapped_rows"], lambda text: missing("nvidia-smi printed %r" % _clip(text)))
    group = "remapped_rows/"
    return all_or_first_missing(
        {
            "correctable": value_of(
                find(gpu, group + "remapped_row_corr", group + "correctable_error"), whole
            ),
            "uncorrectable": value_of(
                find(gpu, group + "remapped_row_unc", group + "uncorrectable_error"), whole
            ),
            "pending": value_of(find(gpu, group + "remapped_row_pending", group + "pending"), yes),
            "failed": value_of(
                find(gpu, group + "remapped_row_failure", group + "remapping_failure_occurred"), yes
            ),
        }
    )


def tree_retired(gpu: Json) -> Any:
    """Return facts.RetiredPages."""
    group = "retired_pages/"
    counts = all_or_first_missing(
        {
            "single_bit": value_of(
                find(gpu, group + "multiple_single_bit_retirement/retired_count", group + "single_bit_ecc"),
                whole,
            ),
            "double_bit": value_of(
                find(gpu, group + "double_bit_retirement/retired_count", group + "double_bit_ecc"), whole
            ),
        }
    )
    if "missing" in counts:
        return counts
    pending = value_of(
        find(gpu, group + "pending_retirement", group + "pending_page_blacklist", group + "pending"), yes
    )
    return {**counts, "pending": pending}


_THROTTLE_WORDS = {
    "gpu_idle": "idle",
    "idle": "idle",
    "applications_clocks_setting": "applications_clocks",
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "sw_thermal",
    "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "hw_power_brake",
    "display_clock_setting": "display_clocks",
    "display_clocks_setting": "display_clocks",
}


def tree_throttle(gpu: Json) -> Any:
    """Return the active reasons for lower clocks."""
    group = gpu.get("clocks_event_reasons", gpu.get("clocks_throttle_reasons"))
    if not isinstance(group, dict):
        return value_of(group, lambda text: missing("nvidia-smi printed %r" % _clip(text)))
    words = {re.sub(r"^clocks_(event|throttle)_reason_", "", key): text for key, text in group.items()}
    known = {_THROTTLE_WORDS[key]: text for key, text in words.items() if key in _THROTTLE_WORDS}
    if not any(text in ("Active", "Not Active") for text in known.values()):
        return value_of(next((text for text in known.values() if isinstance(text, str)), None), whole)
    active = {name for name, text in known.items() if text == "Active"}
    return [name for _, name in _THROTTLE if name in active]


def tree_pcie(gpu: Json) -> Any:
    """Return facts.PcieLink."""
    xml, text = "pci/pci_gpu_link_info/", "pci/gpu_link_info/"
    return all_or_first_missing(
        {
            "generation": value_of(
                find(gpu, xml + "pcie_gen/current_link_gen", text + "pcie_generation/current"), whole
            ),
            "generation_max": value_of(
                find(gpu, xml + "pcie_gen/max_link_gen", text + "pcie_generation/max"), whole
            ),
            "width": value_of(
                find(gpu, xml + "link_widths/current_link_width", text + "link_width/current"), whole
            ),
            "width_max": value_of(
                find(gpu, xml + "link_widths/max_link_width", text + "link_width/max"), whole
            ),
        }
    )


def tree_fabric(gpu: Json) -> Any:
    """Return facts.Fabric."""
    states = {"completed": "completed", "in progress": "in_progress", "not started": "not_started"}
    state = value_of(find(gpu, "fabric/state"), lambda text: states[text.strip().lower()])
    if isinstance(state, dict):
        return state
    return {"state": state, "status": (find(gpu, "fabric/status") or "n/a").lower()}


def tree_recovery(gpu: Json) -> Any:
    """Return the recovery action; before driver 570 only that a reset is required can be said."""
    text = find(gpu, "gpu_recovery_action")
    if text is not None:
        words = {"reset": "gpu_reset", "reboot": "node_reboot"}
        return value_of(text, lambda t: words.get(t.lower(), re.sub(r"[^a-z0-9]+", "_", t.lower())))
    if find(gpu, "gpu_reset_status/reset_required") == "Yes":
        return "gpu_reset"
    if find(gpu, "gpu_reset_status/drain_and_reset_recommended") == "Yes":
        return "drain_and_reset"
    return NOT_HELD


_ARCHITECTURES = {"hopper": (9, 0), "ada lovelace": (8, 9), "turing": (7, 5)}
_CAPABILITIES = (
    # nvidia-smi -q does not print the compute capability; the name gives it. First match wins.
    (r"\bGB10\b", (12, 1)),
    (r"\b(B300|GB300)\b", (10, 3)),
    (r"\b(B100|B200|GB200)\b", (10, 0)),
    (r"\b(RTX PRO \d+.*Blackwell|RTX 50[5-9]0)\b", (12, 0)),
    (r"\b(H100|H200|H800|H20|GH200)\b", (9, 0)),
    (r"\b(L4|L40|L40S|L20|L2)\b|\bRTX 40[5-9]0\b|\bRTX \d000 .*Ada\b|\bRTX \d{4} Ada\b", (8, 9)),
    (r"\b(A100|A800|A30)\b", (8, 0)),
    (r"\b(A2|A10|A10G|A10M|A16|A40)\b|\bRTX 30[5-9]0\b|\bRTX A\d{3,4}\b|\bRTX 2050\b", (8, 6)),
    (
        r"\b(T4G?|TITAN RTX|RTX 20[6-8]0|GTX 16[56]0|Quadro RTX \d000|T[456]00|T550|T1[02]00|MX[45]50)\b",
        (7, 5),
    ),
    (r"\b(V100S?|TITAN V|Quadro GV100|CMP 100)", (7, 0)),
    (r"\b(P100|Quadro GP100)", (6, 0)),
    (r"\b(P4|P6|P40|TITAN Xp?|GTX 10[1-8]0|GT 10[1-3]0|Quadro P\d{3,4}|P\d{3,4}|MX[1-3][1-5]0)\b", (6, 1)),
    (r"\b(M4|M6|M10|M40|M60|GTX 9[5-8]0|GTX TITAN X|Quadro M\d{3,4})\b", (5, 2)),
    (r"\b(GTX 75[05]|GTX 745|Quadro K[26]\d0|9[34]0MX?)\b", (5, 0)),
    (r"\b(K80)\b", (3, 7)),
    (r"\b(K20|K40)[cmst]?\b", (3, 5)),
)


def tree_capability(gpu: Json, name: Any) -> Any:
    """Return the compute capability out of the tree where it holds it, else by name, else by architecture."""
    told = find(gpu, "compute_capability", "compute_cap", "cuda_compute_capability")
    match = re.fullmatch(r"(\d{1,2})\.(\d)", told or "")
    if match:
        return [int(match.group(1)), int(match.group(2))]
    if isinstance(name, str) and not name.endswith("..."):
        for pattern, capability in _CAPABILITIES:
            if re.search(pattern, name, re.IGNORECASE):
                return list(capability)
    known = _ARCHITECTURES.get((find(gpu, "product_architecture") or "").lower())
    return (
        list(known)
        if known
        else missing("nvidia-smi -q does not print it and the name does not tell", "not-asked")
    )


# ---------------------------------------------------------------------------------------------------------

PROBES = (
    Probe("nvml", probe_gpus, ("driver", "gpus"), 15.0),
    Probe("survey", probe_survey, ("processes", "ports", "system"), 10.0),
    Probe("network", probe_network, ("network",), 5.0),
    Probe("kernel_log", probe_kernel_log, ("kernel_log",), 9.0),
    Probe("paths", probe_paths, ("paths",), 5.0),
    Probe("script", probe_script, ("script",), 5.0),
    Probe("python", probe_python, ("python",), 8.0),
    Probe("host", probe_host, ("identity", "limits", "environ", "infiniband", "pci_gpus", "claims"), 5.0),
)
"""What runs on a host, the slowest first."""


if __name__ == "__main__":
    code = serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(code)  # a thread or child that hangs must not keep the agent
