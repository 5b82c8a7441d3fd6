"""What travels to a host to start, watch and end one node of a run. Standard library, Python >= 3.9.

    start    make the run directory, start guardian and supervisor there, then follow
    follow   send the logs and events from given byte offsets on, until the run has ended
    stop     ask the supervisor to end the run, wait for it
    stacks   have every rank write down where it stands; the run goes on
    status   print state.json and whether its supervisor lives
    list     print what runs of this user are here
    fetch    send the files of a run that the other side does not have yet
    remove   delete the directory of a run that is over

Three processes outlive the connection: `guardian -> supervisor -> launcher -> ranks`. Guardian and supervisor
are child subreapers, so nothing a rank starts can leave the tree, however it daemonises. If the supervisor is
killed, the guardian ends the tree; if both are, the launcher has PR_SET_PDEATHSIG, and each rank holds the
read end of `lifeline`, a FIFO whose last writer's end makes the kernel itself kill the rank's process group.
Where it may, the run has a control group of its own (cgroup.py), from which nothing can leave at all.

The run directory (`$XDG_STATE_HOME/gpulaunch/runs/RUN_ID`, mode 0700) is all the truth there is: spec.json,
state.json (replaced atomically), events.jsonl (one JSON object per line, one write each; `t` is the wall
clock, `m` the monotonic one, seconds), launcher.log, rank-N.log, `client` (monotonic time of the last word
from a client), `detached` (there once nobody needs to follow), `stop.json` (who asked to stop, with which
grace, and whether every rank's stacks are wanted first), sizes.jsonl (how long each log was at which time),
usage.jsonl (what was used at which time; gauge.py, which lies there too where the plan sent it, writes that
from a process of its own), stacks-rank-N.log (where each rank stood before a hung run was ended: stacks.py).

Each GPU of a run is claimed by a file in /tmp, which the supervisor and its guardian keep locked: the kernel
lets go of the lock when both are gone, so a claim is believed exactly as long as its run lives.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import select
import signal
import stat
import sys
import time
from typing import Any, Iterator, NamedTuple

MARKER = "GPULAUNCH-RUN-1"
EVENTS = "events.jsonl"
STATE = "state.json"
SIZES = "sizes.jsonl"
USAGE = "usage.jsonl"
LINES = (EVENTS, USAGE)  # sent to followers by whole lines only
GAUGE = "gauge.py"
NAMELESS = " (deleted)"  # how /proc shows the path of a file that has none any more
STACKS = "stacks.py"
CGROUP = "cgroup.py"
OOM_EVERY_S = 1.0
STACKS_SENT = 1 << 20  # of one rank
STACKS_WAIT_S = 60.0  # after this a run that is to end with its stacks ends without them
CLIENT_GONE_S = 30.0  # unheard for so long, a client decides nothing any more
DETACHED = "detached"
TICK_S = 0.2
ALIVE_EVERY_S = 2.0
CHUNK = 256 << 10
STOP_GRACE_S = 10.0  # from SIGTERM to SIGKILL where nobody says otherwise
FAILURE_GRACE_S = 3.0  # from SIGTERM to SIGKILL after a rank has failed: its peers hang in a collective
LAUNCHER_EXIT_S = 3.0  # how long the launcher may take to end by itself once its ranks are gone
KILL_WAIT_S = 15.0  # a process in state D may never go; it is reported instead of waited for
RESERVE = "reserve"  # room on a full disk for how the run ended
RESERVE_BYTES = 64 << 10
AGAIN_EVERY_S = 5.0  # how often what was deleted is put back, where that fails
DELETION_S = 5.0  # after that a deletion is over: it takes name by name what was there, and what is put back
SIZES_EVERY_S = 30.0  # how exactly `logs --since 10m` finds its place
TAIL = 8 << 10  # of rank 0's log, for step and loss
SAMPLE_BYTES = 65536  # one sample of the largest host is a tenth of it
SAMPLE_FRESH_S = 30.0
CLAIMS_DIR = "/tmp"  # noqa: S108 - root's and sticky: nobody deletes another user's claim
CLAIM_PREFIX = "gpulaunch-claim-"
CLAIM_ATTEMPTS = 5
CLAIM_FRESH_S = 60.0  # younger, an unlocked claim may be about to be locked
CLAIM_REFRESH_S = 3600.0  # systemd-tmpfiles removes what nobody has touched for days

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class Stat(NamedTuple):
    """What /proc/PID/stat says; `status` is the raw wait status, and only a zombie's means something."""

    state: str
    ppid: int
    ticks: int
    status: int


class Refused(Exception):
    """The request cannot be carried out; the text is for a person."""


# --- processes --------------------------------------------------------------------------


def prctl(option: int, value: int) -> bool:
    """Return whether the kernel took it. Without ctypes the environment marker alone finds strays."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def read_stat(pid: int) -> Stat | None:
    """Return what the kernel says of a process, None when it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return Stat(fields[0].decode(), int(fields[1]), int(fields[19]), int(fields[-1]))


def is_same(pid: int, ticks: int) -> bool:
    """Return whether this very process, and not a successor with its pid, is there and not a zombie."""
    now = read_stat(pid)
    return now is not None and now.ticks == ticks and now.state not in "ZX"


def ticks_of(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot, 0 when it is gone."""
    found = read_stat(pid)
    return found.ticks if found else 0


def send_signal(pid: int, ticks: int, number: int) -> None:
    """Signal one process by identity: the pidfd pins it, then the start time is read again."""
    if pid <= 1 or pid == os.getpid():
        return
    try:
        if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            fd = os.pidfd_open(pid)
            try:
                if is_same(pid, ticks):
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)
            return
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            return
    try:
        if is_same(pid, ticks):
            os.kill(pid, number)
    except OSError:
        pass


def carries(pid: int, run_dir: str) -> bool:
    """Return whether the environment of the process has this run's marks (only readable for our own).

    An id alone could be that of a run in another home or container; one that began early has no more.
    """
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            marks = file.read().split(b"\0")
    except OSError:
        return False
    if b"GPULAUNCH_RUN_ID=" + os.fsencode(os.path.basename(run_dir)) not in marks:
        return False
    theirs = [mark for mark in marks if mark.startswith(b"GPULAUNCH_RUN_DIR=")]
    return theirs in ([], [b"GPULAUNCH_RUN_DIR=" + os.fsencode(run_dir)])


def members(root: int, run_dir: str, spare: set[int]) -> dict[int, int]:
    """Return {pid: start ticks} of all that descend from root or carry the marks of the run.

    Zombies are left out: they are dead, and their parent's end makes them ours to reap.
    """
    table: dict[int, Stat] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            seen = read_stat(int(name))
            if seen is not None:
                table[int(name)] = seen
    children: dict[int, list[int]] = {}
    for pid, found in table.items():
        children.setdefault(found.ppid, []).append(pid)
    inside: set[int] = set()
    todo = list(children.get(root, ()))
    while todo:
        pid = todo.pop()
        inside.add(pid)
        todo.extend(children.get(pid, ()))
    inside.update(pid for pid in table if pid not in inside and carries(pid, run_dir))
    inside.difference_update(spare)
    return {pid: table[pid].ticks for pid in inside if table[pid].state not in "ZX"}


def reap() -> Iterator[tuple[int, int]]:
    """Yield (pid, exit code) of every child that has ended; negative: ended by that signal."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


# --- files ------------------------------------------------------------------------------


def runs_dir() -> str:
    """Return where the runs of this user lie on this host."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "gpulaunch", "runs")


def write_file(path: str, data: str, mode: int = 0o600) -> None:
    """Replace a file as a whole: after a crash there is the old content or the new, never half of it."""
    fresh = "%s.%d.new" % (path, os.getpid())
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data.encode("utf-8", "surrogateescape"))
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(fresh, path)


def read_json(path: str) -> dict[str, Any] | None:
    """Return a JSON file, None when it is absent or broken."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_event(fd: int, name: str, fields: dict[str, object]) -> bytes:
    """Add one line to events.jsonl in one write; return what a full disk did not take."""
    line = {"event": name, "t": time.time(), "m": time.monotonic(), **fields}
    data = json.dumps(line).encode() + b"\n"
    try:
        return data[os.write(fd, data) :]
    except OSError:
        return data


def append_line(path: str, line: dict[str, object]) -> None:
    """Add one line to a file in one write. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(line).encode() + b"\n")
    finally:
        os.close(fd)


def log_sizes(run_dir: str) -> dict[str, int]:
    """Return how long each log of a run is, in bytes."""
    sizes = {}
    with contextlib.suppress(OSError), os.scandir(run_dir) as entries:
        for entry in entries:
            if entry.name.endswith(".log"):
                with contextlib.suppress(OSError):
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
    return sizes


def boot_id() -> str:
    """Return this boot's id: pids of an earlier boot mean nothing."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def is_alive(state: dict[str, Any]) -> bool:
    """Return whether supervisor or guardian of a state.json still run."""
    if not state or state.get("boot_id") != boot_id():
        return False
    return any(state.get(who) and is_same(*state[who]) for who in ("supervisor", "guardian"))


def look(run_dir: str, known: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return state.json, or what was known of it when it is gone, and whether its keepers live."""
    state = read_json(os.path.join(run_dir, STATE)) or known
    alive = is_alive(state)
    if not alive:  # they may have written their end and gone between the two looks
        state = read_json(os.path.join(run_dir, STATE)) or state
    return state, alive


class Rescue:
    """Logs of a run whose directory was deleted under it: what is written to them, under their names again.

    A file without a name lives on in whoever has it open and can be given none again, so it is copied.
    """

    def __init__(self) -> None:
        self.files: dict[str, list[int]] = {}  # name -> [descriptor, bytes copied]

    def find(self, run_dir: str, pids: list[int]) -> None:
        """Take hold of the run's files that these processes have open and that have no name any more."""
        for pid in pids:
            place = "/proc/%d/fd" % pid
            with contextlib.suppress(OSError):
                for number in os.listdir(place):
                    self._hold(os.path.realpath(run_dir), os.path.join(place, number))

    def _hold(self, run_dir: str, link: str) -> None:
        with contextlib.suppress(OSError):
            path = os.readlink(link)
            directory, name = os.path.split(path[: -len(NAMELESS)] if path.endswith(NAMELESS) else "")
            ours = directory == run_dir and (name.endswith(".log") or name == USAGE)
            if ours and name not in self.files:
                self.files[name] = [os.open(link, os.O_RDONLY | os.O_CLOEXEC), 0]

    def copy(self, run_dir: str) -> bool:
        """Copy what is new, at most CHUNK of each; return whether there was any."""
        some = False
        for name, held in self.files.items():
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                out = os.open(os.path.join(run_dir, name), flags, 0o600)
                try:
                    held[1] = min(held[1], os.fstat(out).st_size)  # less: deleted once more
                    data = os.pread(held[0], CHUNK, held[1])
                    held[1] += os.pwrite(out, data, held[1])
                    some = some or bool(data)
                finally:
                    os.close(out)
        return some


# --- claims -----------------------------------------------------------------------------


def claim_is_live(fd: int, said: dict[str, Any]) -> bool:
    """Return whether the run behind a claim may still live: its lock is held, and in this boot."""
    import fcntl

    if said.get("boot_id", boot_id()) != boot_id():
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def read_claim(path: str) -> tuple[dict[str, Any], int, bool] | None:
    """Return (what a claim says, its owner's uid, whether it is live); None: no claim, or gone."""
    try:
        # O_NONBLOCK: somebody may have put a FIFO there.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        try:
            said = json.loads(os.read(fd, 4096))
        except (OSError, ValueError):
            said = {}
        said = said if isinstance(said, dict) else {}
        return said, found.st_uid, claim_is_live(fd, said)
    finally:
        os.close(fd)


def claim_paths(directory: str, gpu: str) -> list[str]:
    """Return the files that claim a GPU, live or not."""
    start = CLAIM_PREFIX + re.sub(r"[^A-Za-z0-9-]", "_", gpu) + "."
    with contextlib.suppress(OSError):
        return [os.path.join(directory, name) for name in os.listdir(directory) if name.startswith(start)]
    return []


def make_claim(directory: str, gpu: str, run_id: str) -> tuple[str, int]:
    """Create and lock a claim; return its path and the descriptor that holds the lock. Raises OSError."""
    import fcntl

    name = CLAIM_PREFIX + re.sub(r"[^A-Za-z0-9-]", "_", gpu) + "." + os.urandom(6).hex()
    path = os.path.join(directory, name)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(fd, 0o644)
        give_up = time.monotonic() + 1.0
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:  # a reader looks at it just now
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.005)
        me = os.getpid()
        said = {"gpu": gpu, "run_id": run_id, "boot_id": boot_id(), "pid": me, "ticks": ticks_of(me)}
        os.write(fd, json.dumps({**said, "since": time.time()}).encode())
    except BaseException:
        os.close(fd)
        os.unlink(path)
        raise
    return path, fd


def rival_of(directory: str, gpu: str, mine: dict[str, int]) -> str:
    """Return who else claims a GPU, "" when nobody does; what is provably over and ours is removed."""
    for path in claim_paths(directory, gpu):
        found = None if path in mine else read_claim(path)
        if found is None:
            continue
        said, uid, live = found
        if live:
            return "run %s of %s (pid %s)" % (said.get("run_id", "?"), user_name(uid), said.get("pid", "?"))
        with contextlib.suppress(OSError):
            if uid == os.geteuid() and time.time() - os.stat(path).st_mtime > CLAIM_FRESH_S:
                os.unlink(path)
    return ""


def take_claims(spec: dict[str, Any]) -> tuple[dict[str, int], str]:
    """Claim every GPU of the run; return {path: descriptor} and what did not work. Raises Refused.

    Each first claims and then looks for others, so of two at once never both go on; who finds the other
    steps back for a random while, so mostly one does.
    """
    gpus = spec.get("gpus") or []
    directory = spec.get("claims_dir") or CLAIMS_DIR
    rival = gpu = ""
    for attempt in range(CLAIM_ATTEMPTS):
        mine: dict[str, int] = {}
        try:
            mine.update(make_claim(directory, gpu, spec["run_id"]) for gpu in gpus)
        except OSError as error:
            release_claims(mine)
            return {}, "the GPUs cannot be claimed in %s: %s" % (directory, error.strerror)
        for gpu in gpus:
            rival = rival_of(directory, gpu, mine)
            if rival:
                break
        else:
            return mine, ""
        release_claims(mine)
        time.sleep((0.02 + os.urandom(1)[0] / 1000.0) * (attempt + 1))
    raise Refused("GPU %s is claimed by %s" % (gpu, rival))


def release_claims(claims: dict[str, int]) -> None:
    """Give the GPUs back."""
    for path, fd in claims.items():
        with contextlib.suppress(OSError):
            os.unlink(path)
        with contextlib.suppress(OSError):
            os.close(fd)
    claims.clear()


def user_name(uid: int) -> str:
    """Return the name of a user, the number where there is none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


# --- start ------------------------------------------------------------------------------


def make_run_dir(spec: dict[str, Any]) -> str:
    """Create and fill the run directory. Raises Refused when it exists or cannot be written."""
    base = runs_dir()
    path = os.path.join(base, spec["run_id"])
    try:
        os.makedirs(base, mode=0o700, exist_ok=True)
        os.mkdir(path, 0o700)
    except FileExistsError:
        raise Refused("a run called %s is already on this host, in %s" % (spec["run_id"], path)) from None
    except OSError as error:
        raise Refused("the run directory %s cannot be made: %s" % (path, error.strerror)) from None
    try:
        for name, text in [["rank.py", spec["rank_source"]], *spec.get("files", [])]:
            inside = os.path.normpath(os.path.join(path, name))
            if not inside.startswith(path + os.sep):
                raise Refused("%r does not lie in the run directory" % name)
            os.makedirs(os.path.dirname(inside), mode=0o700, exist_ok=True)
            write_file(inside, text)
        kept = {key: value for key, value in spec.items() if key not in ("files", "rank_source", "env")}
        kept["env"] = sorted(spec.get("env", {}))  # names only: values may be secrets
        write_file(os.path.join(path, "spec.json"), json.dumps(kept, indent=1) + "\n")
        for name in (EVENTS, "launcher.log", "supervisor.log"):
            os.close(os.open(os.path.join(path, name), os.O_WRONLY | os.O_CREAT, 0o600))
        write_file(os.path.join(path, RESERVE), "\0" * RESERVE_BYTES)
        os.mkfifo(os.path.join(path, "lifeline"), 0o600)
        touch_client(path)
    except OSError as error:
        raise Refused("the run directory %s cannot be written: %s" % (path, error.strerror)) from None
    return path


def daemonise(spec: dict[str, Any], run_dir: str, early: Any = None) -> dict[str, Any]:
    """Start guardian and supervisor in a session of their own; return the supervisor's first state.

    With `early` (early.py) both wait already, and the launcher's interpreter has begun to import.
    """
    ready = early.hatch(spec, run_dir) if early is not None else fork_guardian(spec, run_dir)
    answer = b""
    while True:
        data = os.read(ready, 65536)
        if not data:
            break
        answer += data
    os.close(ready)
    if not answer:
        with open(os.path.join(run_dir, "supervisor.log"), "rb") as log:
            last = log.read()[-2000:].decode("utf-8", "replace")
        raise Refused("the supervisor ended at once: %s" % last)
    state: dict[str, Any] = json.loads(answer)
    if "refused" in state:
        raise Refused(state["refused"])
    return state


def fork_guardian(spec: dict[str, Any], run_dir: str) -> int:
    """Return the descriptor on which the supervisor's first state comes."""
    ready, done = os.pipe()
    if os.fork() == 0:
        try:
            os.setsid()
            os.close(ready)
            guardian(spec, run_dir, done)
        finally:
            os._exit(1)
    os.close(done)
    return ready


def settle(spec: dict[str, Any], run_dir: str, keep: set[int]) -> None:
    """Become a daemon of the run: detached, its files private, the lifeline in hand."""
    detach(run_dir, keep)
    spec["umask"] = os.umask(0o077)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Both ends in one descriptor: opening does not wait for a reader, and both processes hold it.
    os.open(os.path.join(run_dir, "lifeline"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def detach(run_dir: str, keep: set[int]) -> None:
    """Let go of the terminal and of every inherited descriptor but those to keep."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(os.path.join(run_dir, "supervisor.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


def guardian(spec: dict[str, Any], run_dir: str, done: int, early: Any = None) -> None:
    """Wait for the supervisor; when it was killed, end everything below and write the end down."""
    code = 1
    try:
        settle(spec, run_dir, {done} if early is None else {done, early.link.fileno()})
        claims, problem = take_claims(spec)
        me = os.getpid()
        if early is not None:
            pid = early.hand_over([spec, run_dir, list(claims), problem], list(claims.values()))
        else:
            pid = os.fork()
        if pid == 0:
            code = Supervisor(spec, run_dir, me, done).run(claims, problem)
        else:
            os.close(done)
            guard(run_dir, pid)
            release_claims(claims)
            code = 0
    except Refused as refusal:
        os.write(done, json.dumps({"refused": str(refusal)}).encode())
        end: dict[str, Any] = {
            "launcher_code": None,
            "ranks": {},
            "left": [],
            "why": str(refusal),
            "port_free": None,
        }
        state = {"run_id": spec["run_id"], "boot_id": boot_id(), "phase": "ended", "run_dir": run_dir}
        write_file(os.path.join(run_dir, STATE), json.dumps({**state, "exit": end, "ended": time.time()}))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def supervise_early(message: list[Any], descriptors: list[int], done: int, early: Any) -> None:
    """The whole life of a supervisor that was there before the plan."""
    code = 1
    try:
        spec, run_dir, claims, problem = message
        settle(spec, run_dir, {done, early.interpreter_in, *descriptors})
        supervisor = Supervisor(spec, run_dir, os.getppid(), done)
        supervisor.early = early
        code = supervisor.run(dict(zip(claims, descriptors)), problem)  # noqa: B905 - Python 3.9
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def guard(run_dir: str, pid: int) -> None:
    """The guardian's whole life: reap until the supervisor is gone, then make sure that it left nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the supervisor is the one to ask
    while True:
        try:
            ended, status = os.waitpid(-1, 0)
        except ChildProcessError:
            break
        if ended == pid:
            break
    state = read_json(os.path.join(run_dir, STATE)) or {}
    if state.get("phase") == "ended":
        return
    code = os.waitstatus_to_exitcode(status)
    events = -1  # a write to it fails, as all others do, when the run directory is gone
    with contextlib.suppress(OSError):
        events = os.open(os.path.join(run_dir, EVENTS), os.O_WRONLY | os.O_APPEND)
    died = write_event(events, "supervisor_died", {"code": code})
    left = end_all(run_dir, {os.getpid()}, group_of(run_dir, state))
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(run_dir, RESERVE))
        os.write(events, died)
    why = "the supervisor was killed" if code < 0 else "the supervisor failed (supervisor.log says why)"
    end: dict[str, Any] = {"launcher_code": None, "ranks": {}, "left": left, "why": why, "port_free": None}
    write_event(events, "ended", end)
    state.update(phase="ended", exit=end, ended=time.time())
    with contextlib.suppress(OSError):
        write_file(os.path.join(run_dir, STATE), json.dumps(state))


def load_beside(run_dir: str, name: str) -> Any:
    """Return a file of the run directory as a module, None when it is not there."""
    import types

    path = os.path.join(run_dir, name)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError:
        return None
    module = types.ModuleType(name.partition(".")[0])
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - put there by ourselves
    return module


def group_of(run_dir: str, state: dict[str, Any]) -> Any:
    """Return the control group of a run as its state.json names it, None when there is none."""
    path, run_id = state.get("cgroup"), state.get("run_id")
    module = load_beside(run_dir, CGROUP) if path else None
    if module is None or os.path.basename(str(path)) != "%s%s" % (module.PREFIX, run_id):
        return None
    return module.Cgroup(path)


def with_group(alive: dict[int, int], group: Any, spare: set[int]) -> dict[int, int]:
    """Return the living members of a run with those that only its control group knows."""
    for pid in group.pids() - spare - set(alive) if group is not None else ():
        found = read_stat(pid)
        if found is not None and found.state not in "ZX":
            alive[pid] = found.ticks
    return alive


def end_all(run_dir: str, spare: set[int], group: Any = None) -> list[int]:
    """SIGKILL everything of the run until nothing is left; return the pids that do not go."""
    give_up = time.monotonic() + KILL_WAIT_S
    if group is not None:
        group.kill()
    while True:
        alive = with_group(members(os.getpid(), run_dir, spare), group, spare)
        for _ in reap():
            pass
        if not alive or time.monotonic() > give_up:
            if group is not None:
                group.remove()
            return sorted(alive)
        for pid, ticks in alive.items():
            send_signal(pid, ticks, signal.SIGKILL)
        time.sleep(0.05)


def collect_guardian() -> None:
    """Reap the guardian where it is our child: in a container nobody else may ever do it."""
    give_up = time.monotonic() + 1.0
    while time.monotonic() < give_up:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(0.01)


# --- the supervisor ---------------------------------------------------------------------


class Rank(NamedTuple):
    """A living rank as it introduced itself; `fd` is its pidfd, -1 before Linux 5.3."""

    rank: int
    ticks: int
    fd: int


class Supervisor:
    """Starts the launcher, knows its ranks, ends all of them. One thread, one loop."""

    def __init__(self, spec: dict[str, Any], run_dir: str, guardian_pid: int, done: int) -> None:
        self.spec = spec
        self.run_dir = run_dir
        self.done = done
        self.grace_s: float | None = spec.get("grace_s")  # None: nobody needs to follow (detached)
        self.ranks: dict[int, Rank] = {}  # by pid: those that live
        self.codes: dict[int, int | None] = {}  # by rank: those that ended; None when it was not seen
        self.said: dict[int, int] = {}  # by rank: the code it said it would leave with
        self.launcher = (0, 0)  # pid, start ticks
        self.launcher_code: int | None = None
        self.gauge = (0, 0)  # pid, start ticks
        self.gauge_life = -1  # its stdin, which ends with us
        self.quiet_s = 0.0  # for how long nothing has shown life, once that is longer than it may be
        self.dumper = (0, 0)  # stacks.py: pid, start ticks
        self.dump_until = 0.0
        self.then_stop: tuple[str, float, bool] = ("", 0.0, False)  # what follows it
        self.group: Any = None  # the run's own control group (cgroup.py)
        self.oom: Any = None
        self.next_oom = 0.0
        self.stage = 0  # 0 running, 1 ranks asked to end, 2 everything asked, 3 killed
        self.asked = False
        self.why = ""
        self.grace_until = self.stage_until = 0.0
        # Held open, so that a deleted run directory or a new file under the old name changes nothing.
        events = os.path.join(run_dir, EVENTS)
        self.events_in = os.open(events, os.O_RDONLY | os.O_CLOEXEC)
        self.events_out = os.open(events, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self.events_rest = b""
        self.early: Any = None  # an interpreter that waits for the plan (early.py)
        self.claims: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.kept = read_json(os.path.join(run_dir, "spec.json")) or {}
        self.unwritten = b""  # events that a full disk did not take
        self.rescue = Rescue()
        self.next_sizes = self.next_refresh = self.next_again = self.deletion_until = 0.0
        self.state: dict[str, Any] = {
            "run_id": spec["run_id"],
            "boot_id": boot_id(),
            "phase": "starting",
            "run_dir": run_dir,
            "supervisor": [os.getpid(), ticks_of(os.getpid())],
            "guardian": [guardian_pid, ticks_of(guardian_pid)],
            "launcher": None,
            "started": time.time(),
            "exit": None,
            "left": [],
        }

    def run(self, claims: dict[str, int], problem: str) -> int:
        """Live until the run has ended and nothing of it is left; return the process's exit code."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.claims = claims
        if problem:
            self._event("guard_failed", what="claim the GPUs", error=problem)
        poller, wake = self._arm()
        self._make_group()
        try:
            self.launcher = self._start_launcher()
        except Refused as refusal:
            self._finish()
            os.write(self.done, json.dumps({"refused": str(refusal)}).encode())
            return 1
        self.state["launcher"] = list(self.launcher)
        self._save("running")
        self._event("started", launcher=self.launcher[0])
        os.write(self.done, json.dumps(self.state).encode())
        os.close(self.done)
        self._start_gauge()
        while True:
            self._wait(poller, wake)
            self._read_events(poller)
            self._see_ranks_end(poller)
            self._see_oom()
            self._reap(poller)
            self._watch_client()
            self._watch_hang()
            self._keep_records()
            if self.asked:
                self._asked_to_stop()
            if self._advance():
                # What ended since the look above is a zombie: its exit code is there to be seen.
                self._read_events(poller)
                self._see_ranks_end(poller)
                self._reap(poller)
                self._finish()
                return 0

    def _arm(self) -> tuple[select.poll, int]:
        wake, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._bell)
        poller = select.poll()
        poller.register(wake, select.POLLIN)
        return poller, wake

    def _bell(self, *_: object) -> None:
        self.asked = True  # handled in the loop: a handler must not cut into half-done work

    def _wait(self, poller: select.poll, wake: int) -> None:
        poller.poll(1000 * (0.05 if self.stage else TICK_S))
        with contextlib.suppress(OSError):
            os.read(wake, 4096)

    # starting

    def _make_group(self) -> None:
        """Make a control group where that is allowed, and begin to count kills for want of memory."""
        module = load_beside(self.run_dir, CGROUP)
        if module is None:
            return
        self.group, why = module.Cgroup.make(self.spec["run_id"])
        self.state["cgroup"] = self.group.path if self.group is not None else None
        self.state["cgroup_missing"] = why
        self.oom = module.OomKills()

    def _start_launcher(self) -> tuple[int, int]:
        env = self._environment()
        argv = self._argv()
        cwd = os.path.expanduser((self.spec.get("cwd") or "~").replace("{run_dir}", self.run_dir))
        if self.early is not None:
            if self.group is not None and self.early.interpreter_pid:  # before it can start anything
                self.group.add(self.early.interpreter_pid)
            pid = self.early.launch(argv, env, cwd, os.path.join(self.run_dir, "launcher.log"))
            if pid:
                self.state["early"] = True
                return pid, ticks_of(pid)
        failed, report = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            try:
                self._become_launcher(argv, env, cwd)
            except BaseException as error:
                os.write(report, str(error).encode("utf-8", "replace")[:1000])
            finally:
                os._exit(127)
        os.close(report)
        problem = os.read(failed, 1000).decode("utf-8", "replace")
        os.close(failed)
        if problem:
            os.waitpid(pid, 0)
            raise Refused("the launcher cannot be started (%s in %s): %s" % (argv[0], cwd, problem))
        return pid, ticks_of(pid)

    def _argv(self) -> list[str]:
        """Fill in the run directory up to rank.py; what follows is the script's and arrives unchanged."""
        argv = list(self.spec["argv"])
        ours = argv.index("{run_dir}/rank.py") + 1 if "{run_dir}/rank.py" in argv else len(argv)
        # A script sent with the launch lies in the run directory too; its name follows rank.py.
        script = {"{run_dir}/" + name for name, _ in self.spec.get("files", [])}
        if ours < len(argv) and argv[ours] in script:
            ours += 1
        argv[0] = os.path.expanduser(argv[0])
        return [word.replace("{run_dir}", self.run_dir) for word in argv[:ours]] + argv[ours:]

    def _environment(self) -> dict[str, str]:
        env = dict(os.environ)
        for pattern in self.spec.get("unset", []):
            for name in list(env):
                if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
                    del env[name]
        for name, value in self.spec.get("env", {}).items():
            env[name] = value.replace("{run_dir}", self.run_dir)
        env["GPULAUNCH_RUN_ID"] = self.spec["run_id"]
        env["GPULAUNCH_RUN_DIR"] = self.run_dir
        env["GPULAUNCH_SUPERVISOR"] = "%s:%d:%d" % (boot_id(), *self.state["supervisor"])
        return env

    def _become_launcher(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        parent = os.getppid()
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        if self.group is not None:
            self.group.add(os.getpid())
        os.chdir(cwd)
        log = os.open(os.path.join(self.run_dir, "launcher.log"), os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.umask(self.spec["umask"])
        os.execvpe(argv[0], argv, env)  # noqa: S606 - no shell is the point

    def _start_gauge(self) -> None:
        """Have what is used measured beside us; whatever becomes of that, the run goes on."""
        if not os.path.exists(os.path.join(self.run_dir, GAUGE)):
            return
        theirs, self.gauge_life = os.pipe2(os.O_CLOEXEC)
        self.gauge = self._start_beside(GAUGE, theirs, "measure use")
        os.close(theirs)

    def _start_beside(self, name: str, stdin: int, what: str) -> tuple[int, int]:
        """Start a file of the run directory in our own Python; return pid and start ticks, or 0 and 0."""
        env = {**os.environ, "GPULAUNCH_RUN_ID": self.spec["run_id"], "CUDA_VISIBLE_DEVICES": ""}
        env["GPULAUNCH_SUPERVISOR"] = "%s:%d:%d" % (boot_id(), *self.state["supervisor"])
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-ISE", os.path.join(self.run_dir, name), self.run_dir],
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0)],
                setsigdef=(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE),
            )
        except (OSError, ValueError) as error:
            self._event("guard_failed", what="the attempt to " + what, error=str(error))
            return 0, 0
        return pid, ticks_of(pid)

    def _end_gauge(self) -> None:
        """Kill it, even where it hangs in a driver; then it is not waited for."""
        send_signal(*self.gauge, signal.SIGKILL)

    # watching

    def _read_events(self, poller: select.poll) -> None:
        """Learn the ranks' pids from what they wrote; each is then watched through a pidfd."""
        while True:
            data = os.read(self.events_in, 65536)
            if not data:
                return
            *lines, self.events_rest = (self.events_rest + data).split(b"\n")
            for line in lines:
                try:
                    self._hear(poller, json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError):
                    continue  # a script may have written there; what is not ours is not ours to judge

    def _hear(self, poller: select.poll, event: dict[str, Any]) -> None:
        name = event.get("event")
        if name in ("quiet", "active"):
            limit = event.get("timeout_s")
            over = name == "quiet" and limit and float(event["seconds"]) >= float(limit)
            self.quiet_s = float(event["seconds"]) if over else 0.0
        if name == "leaving":
            self.said[int(event["rank"])] = int(event["code"])
        if name != "rank":
            return
        pid = int(event["pid"])
        fd = -1
        try:
            fd = os.pidfd_open(pid)
            poller.register(fd, select.POLLIN)
        except (OSError, AttributeError):
            pass  # gone already, or before Linux 5.3, where each tick looks instead
        self.ranks[pid] = Rank(int(event["rank"]), int(event["ticks"]), fd)

    def _see_ranks_end(self, poller: select.poll) -> None:
        """Read the exit status of ended ranks from /proc before their parent, the launcher, reaps them."""
        for pid, known in list(self.ranks.items()):
            found = read_stat(pid)
            if found is None or found.ticks != known.ticks:
                self._rank_ended(poller, pid, self.said.get(known.rank))
            elif found.state in "ZX":
                self._rank_ended(poller, pid, os.waitstatus_to_exitcode(found.status))

    def _rank_ended(self, poller: select.poll, pid: int, code: int | None) -> None:
        known = self.ranks.pop(pid)
        if known.fd >= 0:
            poller.unregister(known.fd)
            os.close(known.fd)
        self.codes[known.rank] = code
        self._see_oom(at_once=True)
        self._event("rank_exit", rank=known.rank, pid=pid, code=code, stopping=bool(self.stage))
        if code and not self.stage:
            self._stop("rank %d failed with exit code %d" % (known.rank, code), FAILURE_GRACE_S)

    def _see_oom(self, *, at_once: bool = False) -> None:
        """Say when the kernel has ended something for want of memory: who was killed cannot tell."""
        now = time.monotonic()
        if self.oom is None or (now < self.next_oom and not at_once):
            return
        self.next_oom = now + OOM_EVERY_S
        count = self.oom.more()
        if count:
            self._event("oom", count=count, scope=self.oom.scope)

    def _event(self, name: str, **fields: object) -> None:
        with contextlib.suppress(OSError):
            while self.unwritten:
                self.unwritten = self.unwritten[os.write(self.events_out, self.unwritten) :]
        if self.unwritten:  # in order, or not yet
            line = {"event": name, "t": time.time(), "m": time.monotonic(), **fields}
            self.unwritten += json.dumps(line).encode() + b"\n"
        else:
            self.unwritten = write_event(self.events_out, name, fields)

    def _reap(self, poller: select.poll) -> None:
        for pid, code in reap():
            if pid in self.ranks:  # its launcher is gone, and it ended between two looks
                self._rank_ended(poller, pid, code)
            if pid == self.dumper[0]:
                self.dumper = (0, 0)
                if code:
                    error = "it ended with code %d; supervisor.log may say why" % code
                    self._event("guard_failed", what="writing down where the ranks stand", error=error)
            if pid == self.gauge[0]:
                self.gauge = (0, 0)
                if not self.stage:
                    error = "it ended with code %d; supervisor.log may say why" % code
                    self._event("guard_failed", what="the attempt to measure use", error=error)
            if pid != self.launcher[0]:
                continue
            self.launcher_code = code
            self._ask_the_launchers_log(code)
            self._event("launcher_exit", code=code)
            if not self.stage:
                self._stop("", FAILURE_GRACE_S)

    def _ask_the_launchers_log(self, launcher_code: int) -> None:
        """Learn how the one rank of the simple launcher ended: that one reaps at once, so we saw nothing."""
        unseen = [rank for rank, code in self.codes.items() if code is None]
        if len(unseen) != 1 or launcher_code == 0:
            return
        with contextlib.suppress(OSError):
            with open(os.path.join(self.run_dir, "launcher.log"), "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - 65536))
                said = re.findall(rb"died with <Signals\.\w+: (\d+)>|non-zero exit status (\d+)", log.read())
            if said:
                by_signal, status = said[-1]
                code = -int(by_signal) if by_signal else int(status)
                self.codes[unseen[0]] = code
                self._event("rank_exit", rank=unseen[0], code=code, stopping=bool(self.stage))

    def _keep_records(self) -> None:
        """Note how long the logs are, for `logs --since`, and show tidiers that the claims are in use."""
        now = time.monotonic()
        if now >= self.next_again and self._is_deleted():
            self._make_again()
            self.next_again = now + AGAIN_EVERY_S if self._is_deleted() else 0.0
            self.deletion_until = now + DELETION_S
        if now < self.deletion_until:
            self.rescue.find(self.run_dir, [*self.ranks, self.launcher[0], self.gauge[0]])
        self.rescue.copy(self.run_dir)
        if now >= self.next_sizes:
            self.next_sizes = now + SIZES_EVERY_S
            sizes = log_sizes(self.run_dir)
            if sizes != self.sizes:
                self.sizes = sizes
                with contextlib.suppress(OSError):
                    append_line(os.path.join(self.run_dir, SIZES), {"t": time.time(), "sizes": sizes})
        if now >= self.next_refresh:
            self.next_refresh = now + CLAIM_REFRESH_S
            for fd in self.claims.values():
                with contextlib.suppress(OSError):
                    os.utime(fd)

    def _is_deleted(self) -> bool:
        """Return whether state.json is gone, or the name of the events that are open here."""
        with contextlib.suppress(OSError):
            named = os.stat(os.path.join(self.run_dir, EVENTS))
            if os.path.samestat(named, os.fstat(self.events_out)):
                return not os.path.exists(os.path.join(self.run_dir, STATE))
        return True

    def _make_again(self) -> None:
        """Put what was deleted back, as far as it is known here, so that the run can still be found."""
        with contextlib.suppress(OSError):
            os.makedirs(self.run_dir, mode=0o700, exist_ok=True)
            write_file(os.path.join(self.run_dir, "spec.json"), json.dumps(self.kept))
            self._move_events()
            if self.grace_s is None:
                write_file(os.path.join(self.run_dir, DETACHED), "")
            else:
                touch_client(self.run_dir)
        self._save(self.state["phase"])
        self._event("guard_failed", what="keep the run directory", error="%s was deleted" % self.run_dir)

    def _move_events(self) -> None:
        """Go on in a new events.jsonl that begins as the deleted one, so that offsets hold."""
        path = os.path.join(self.run_dir, EVENTS)
        old, position = b"", os.lseek(self.events_in, 0, os.SEEK_CUR)
        while data := os.pread(self.events_in, CHUNK, len(old)):
            old += data
        write_file(path, old.decode("utf-8", "surrogateescape"))
        for mine, flags in ((self.events_in, os.O_RDONLY), (self.events_out, os.O_WRONLY | os.O_APPEND)):
            fresh = os.open(path, flags | os.O_CLOEXEC)
            os.dup2(fresh, mine, inheritable=False)
            os.close(fresh)
        os.lseek(self.events_in, position, os.SEEK_SET)

    def _watch_client(self) -> None:
        if self.grace_s is None or self.stage:
            return
        if os.path.exists(os.path.join(self.run_dir, DETACHED)):
            self.grace_s = None
            return
        if self._client_silent_s() > self.grace_s:
            words = "nobody has followed this attached run for %g s" % self.grace_s
            self._stop(words, STOP_GRACE_S)

    def _client_silent_s(self) -> float:
        """Return for how long no client has been heard; 0 where that is not known."""
        try:
            with open(os.path.join(self.run_dir, "client")) as file:
                return time.monotonic() - float(file.read())
        except (OSError, ValueError):
            return 0.0

    def _watch_hang(self) -> None:
        """End a run in which nothing lives any more, once it is known where its ranks stand.

        A run on one host is judged here. One on several is judged by its client, who knows whether other
        hosts live; without a client each host goes by its own ranks.
        """
        if self.dump_until:
            if not self.dumper[0] or time.monotonic() > self.dump_until:
                self._dumped()
        elif self.quiet_s and not self.stage and self._decides_alone():
            words = "hung: no output, no optimizer step, no use of GPU or CPU for %.0f s" % self.quiet_s
            self._end_hung(words, FAILURE_GRACE_S, asked=False)

    def _decides_alone(self) -> bool:
        return bool(self.spec.get("nodes", 1) == 1 or self._client_silent_s() > CLIENT_GONE_S)

    def _end_hung(self, why: str, grace_s: float, *, asked: bool) -> None:
        """Say that it hangs, have every rank's stacks written down, then end it."""
        if self.stage or self.dump_until:
            return
        self._event("hung", why=why, seconds=self.quiet_s, asked=asked)
        self.then_stop = why, grace_s, asked
        self.dump_until = time.monotonic() + STACKS_WAIT_S
        if os.path.exists(os.path.join(self.run_dir, STACKS)):
            self.dumper = self._start_beside(STACKS, 0, "write down where the ranks stand")

    def _dumped(self) -> None:
        send_signal(*self.dumper, signal.SIGKILL)
        self.dump_until = 0.0
        why, grace_s, asked = self.then_stop
        self._stop(why, grace_s, asked=asked)

    # ending

    def _asked_to_stop(self) -> None:
        self.asked = False
        wish = read_json(os.path.join(self.run_dir, "stop.json")) or {}
        grace = wish.get("grace_s")
        grace_s = float(grace) if isinstance(grace, (int, float)) else STOP_GRACE_S
        why = str(wish.get("why") or "asked to stop (SIGTERM)")
        if wish.get("stacks"):
            self._end_hung(why, grace_s, asked=True)
        else:
            self._stop(why, grace_s, asked=True)

    def _stop(self, why: str, grace_s: float, *, asked: bool = False) -> None:
        """Begin to end the run, or shorten the grace of an end that has begun. No `why`: by itself."""
        until = time.monotonic() + grace_s
        if self.stage:
            self.grace_until = min(self.grace_until, until)
            return
        self.stage = 1
        self.why = why
        self.grace_until = self.stage_until = until
        if why:
            self._event("stopping", why=why, grace_s=grace_s, asked=asked)
        self._save("stopping")
        # The ranks first and alone: a launcher that is asked kills DataLoader workers with them, and a rank
        # that wants to write its last checkpoint needs those.
        if grace_s > 0:
            self._signal({pid: known.ticks for pid, known in self.ranks.items()}, signal.SIGTERM)

    def _advance(self) -> bool:
        """Take the end one step further; return True once nothing is left."""
        if not self.stage:
            return False
        now = time.monotonic()
        if self.stage == 1:
            if self.ranks and now < self.grace_until:
                return False
            self.stage_until = min(self.stage_until, now + LAUNCHER_EXIT_S)
            if self._launcher_may_end() and now < self.stage_until:
                return False
            self.stage = 2
            self._end_gauge()
            self._signal(self._members(), signal.SIGTERM)
            return False
        alive = self._members()
        if not alive:
            return True
        if self.stage == 2 and now >= self.grace_until:
            self.stage = 3
            self.stage_until = now + KILL_WAIT_S
            if self.group is not None:
                self.group.kill()
        if self.stage == 3:
            self._signal(alive, signal.SIGKILL)
            self.state["left"] = sorted(alive) if now > self.stage_until else []
        return bool(self.state["left"])

    def _launcher_may_end(self) -> bool:
        """Return whether the launcher, having seen its ranks end, is about to end by itself."""
        return bool(self.codes) and self.launcher_code is None

    def _members(self) -> dict[int, int]:
        spare = self._spare()
        alive = members(os.getpid(), self.run_dir, spare)
        return with_group(alive, self.group, spare)

    def _signal(self, alive: dict[int, int], number: int) -> None:
        for pid, ticks in alive.items():
            send_signal(pid, ticks, number)
            if number == signal.SIGTERM:
                send_signal(pid, ticks, signal.SIGCONT)  # a stopped process hears nothing else

    def _spare(self) -> set[int]:
        return {os.getpid(), self.state["guardian"][0], self.gauge[0]}

    def _save(self, phase: str) -> None:
        self.state["phase"] = phase
        with contextlib.suppress(OSError):  # a full disk or a deleted directory must not end the run
            write_file(os.path.join(self.run_dir, STATE), json.dumps(self.state))

    def _finish(self) -> None:
        for _ in reap():
            pass
        port = self.spec.get("main_port")
        end: dict[str, Any] = {
            "launcher_code": self.launcher_code,
            "ranks": {str(rank): code for rank, code in self.codes.items()},
            "left": self.state["left"],
            "why": self.why,
            "port_free": port_is_free(port) if port else None,
        }
        release_claims(self.claims)
        if self.group is not None:
            self.group.remove()
        while self.rescue.copy(self.run_dir):
            pass
        # Nothing of the run writes any more, so what this frees is there for the last words.
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.run_dir, RESERVE))
        self._event("ended", **end)
        self.state.update(exit=end, ended=time.time())
        self._save("ended")


def port_is_free(port: int) -> bool:
    """Bind as torch's store does; TIME_WAIT does not count, a listener does."""
    import socket

    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 - as the store
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
    return True


# --- clients ----------------------------------------------------------------------------


def touch_client(run_dir: str) -> None:
    """Note that a client has just been heard, in the host's monotonic time: no clock jump can end a run."""
    path = os.path.join(run_dir, "client")
    try:
        fresh = "%s.%d" % (path, os.getpid())
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w") as file:
            file.write("%.3f" % time.monotonic())
        os.rename(fresh, path)
    except OSError:
        pass


def request_stop(run_dir: str, grace_s: float, why: str, *, stacks: bool = False) -> bool:
    """Leave the wish and ring the supervisor's bell; return False when there is no supervisor to ask.

    `stacks`: it hangs, and before its end every rank's stacks are to be written down.
    """
    state = read_json(os.path.join(run_dir, STATE)) or {}
    if state.get("boot_id") != boot_id() or not state.get("supervisor"):
        return False
    with contextlib.suppress(OSError):  # the bell alone means: stop with the default grace
        wish = {"grace_s": grace_s, "why": why, "stacks": stacks}
        write_file(os.path.join(run_dir, "stop.json"), json.dumps(wish))
    pid, ticks = state["supervisor"]
    if not is_same(pid, ticks):
        return False
    send_signal(pid, ticks, signal.SIGTERM)
    send_signal(pid, ticks, signal.SIGCONT)
    return True


def frame(header: dict[str, Any], data: bytes = b"") -> memoryview:
    """Return one frame as it goes over the wire: a JSON header line, then the bytes it announces."""
    return memoryview(json.dumps(header).encode() + b"\n" + data)


class Follower:
    """Sends what the run directory has and gets, as frames: a JSON header line, then `size` raw bytes."""

    def __init__(self, run_dir: str, request: dict[str, Any]) -> None:
        self.run_dir = run_dir
        self.offsets = {name: int(offset) for name, offset in request.get("offsets", {}).items()}
        self.viewer = bool(request.get("viewer"))  # only looks: its presence keeps no attached run alive
        self.only: list[str] | None = request.get("only")
        # `once`: what is there now and no more, however fast it grows.
        self.limits = log_sizes(run_dir) if request.get("once") else None
        if "since" in request:
            self.offsets = {**offsets_since(run_dir, request["since"]), **self.offsets}
        self.files: dict[str, int] = {}
        self.state: dict[str, Any] = {}
        self.out = memoryview(b"")
        self.words = b""
        self.next_alive = 0.0
        self.wait_s = 0.02

    def run(self) -> int:
        """Follow until the run has ended, or the client says bye or is gone; return the exit code."""
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        ended = False
        while True:
            gone = self._turn(idle=not ended)
            if ended and not self.out:
                collect_guardian()
            if gone or (ended and not self.out):
                return 0
            if self.out or ended:
                continue
            over = not self._running()  # asked before reading, so that nothing is written after the last read
            if self._fill():
                self.wait_s = 0.01
                continue
            self.wait_s = min(self.wait_s * 1.5, 0.1)
            if over:
                self.out = frame({"end": self.state, "t": time.time()})
                ended = True
            elif time.monotonic() >= self.next_alive:
                self.out = frame({"alive": time.monotonic(), "t": time.time()})
                self.next_alive = time.monotonic() + ALIVE_EVERY_S

    def _running(self) -> bool:
        if self.limits is not None:
            self.state = read_json(os.path.join(self.run_dir, STATE)) or {}
            return False
        # What was read last stands when the run directory has been deleted.
        self.state, alive = look(self.run_dir, self.state)
        return self.state.get("phase") != "ended" and alive

    def _turn(self, *, idle: bool) -> bool:
        """Move bytes in both directions without ever blocking; return True when the client is gone."""
        readable, writable, _ = select.select([0], [1] if self.out else [], [], self.wait_s if idle else 5.0)
        if writable:
            try:
                self.out = self.out[os.write(1, self.out) :]
            except BlockingIOError:
                pass
            except OSError:
                return True
        if readable:
            try:
                data = os.read(0, 4096)
            except BlockingIOError:
                return False
            if not data:
                return True
            *words, self.words = (self.words + data).split(b"\n")
            return any([self._obey(word.split()) for word in words])  # noqa: C419 - each word is obeyed
        return False

    def _obey(self, words: list[bytes]) -> bool:
        if not self.viewer:
            touch_client(self.run_dir)
        if words and words[0] == b"detach":
            with contextlib.suppress(
                OSError
            ):  # a full disk: then nothing is promised, and we go on following
                detach_run(self.run_dir)
        if words and words[0] in (b"stop", b"hung"):
            grace_s = float(words[1]) if len(words) > 1 else STOP_GRACE_S
            why = b" ".join(words[2:]).decode("utf-8", "replace") or "asked to stop"
            request_stop(self.run_dir, grace_s, why, stacks=words[0] == b"hung")
        return bool(words) and words[0] == b"bye"

    def _fill(self) -> bool:
        """Take the next bytes of every log; return whether there were any."""
        try:
            names = sorted(os.listdir(self.run_dir))
        except OSError:
            names = list(self.files)  # the directory was deleted: what is open can still be read
        for name in names:
            if name not in self.files and self._wanted(name):
                try:
                    self.files[name] = os.open(os.path.join(self.run_dir, name), os.O_RDONLY | os.O_CLOEXEC)
                except OSError:
                    continue
        self._follow_events()
        parts = []
        for name, fd in self.files.items():
            offset = self.offsets.get(name, 0)
            room = CHUNK if self.limits is None else min(CHUNK, self.limits.get(name, 0) - offset)
            data = os.pread(fd, room, offset) if room > 0 else b""
            if name in LINES:
                data = data[: data.rfind(b"\n") + 1]
            if data:
                parts.append(frame({"log": name, "offset": offset, "size": len(data)}, data))
                self.offsets[name] = offset + len(data)
        self.out = memoryview(b"".join(parts))
        return bool(parts)

    def _follow_events(self) -> None:
        """Where the directory was deleted and put back, events go on in another file that begins alike."""
        path = os.path.join(self.run_dir, EVENTS)
        with contextlib.suppress(OSError):
            if EVENTS in self.files and not os.path.samestat(os.stat(path), os.fstat(self.files[EVENTS])):
                fresh = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                os.close(self.files[EVENTS])
                self.files[EVENTS] = fresh

    def _wanted(self, name: str) -> bool:
        if self.only is not None:
            return name in self.only
        return name in LINES or name.endswith(".log")


def detach_run(run_dir: str) -> None:
    """Let the run go on without a client, and say so among the events."""
    write_file(os.path.join(run_dir, DETACHED), "")
    events = os.open(os.path.join(run_dir, EVENTS), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        write_event(events, "detached", {})
    finally:
        os.close(events)


def offsets_since(run_dir: str, since: dict[str, float]) -> dict[str, int]:
    """Return where to begin for {"bytes": n}, at a line's start, or {"seconds": n}, a little early."""
    now = log_sizes(run_dir)
    if "bytes" in since:
        return {name: line_start(run_dir, name, size - int(since["bytes"])) for name, size in now.items()}
    before: dict[str, int] = {}
    with contextlib.suppress(OSError), open(os.path.join(run_dir, SIZES), "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):
                noted = json.loads(line)
                if noted["t"] > time.time() - float(since["seconds"]):
                    break
                before = {str(name): int(size) for name, size in noted["sizes"].items()}
    return before


def line_start(run_dir: str, name: str, offset: int) -> int:
    """Return where the first whole line at or after an offset begins; a long line is cut."""
    if offset <= 0:
        return 0
    try:
        with open(os.path.join(run_dir, name), "rb") as file:
            file.seek(offset - 1)
            found = file.read(4096).find(b"\n")
    except OSError:
        return offset
    return offset + found if found >= 0 else offset


# --- what is here -----------------------------------------------------------------------


def list_runs(request: dict[str, Any]) -> dict[str, Any]:
    """Return the runs of this user on this host: those that live or were lost, and the ended on request."""
    base = runs_dir()
    try:
        names = [name for name in os.listdir(base) if not name.startswith(".")]
    except OSError:
        names = []
    found = []
    for name in sorted(names):
        if not name.startswith(str(request.get("prefix", ""))):
            continue
        run = describe_run(os.path.join(base, name), tail=int(request.get("tail", TAIL)))
        if run is not None and (request.get("ended") or run["state"].get("phase") != "ended"):
            found.append(run)
    if request.get("newest"):
        found = sorted(found, key=lambda run: run["state"].get("started") or 0.0)[-1:]
    gpus = {gpu for run in found if run["alive"] for gpu in run["spec"].get("gpus") or ()}
    use: dict[str, list[float]] = {}
    if request.get("gpu_use"):
        for run in found:
            run["usage"] = last_sample(os.path.join(base, run["run_id"])) if run["alive"] else None
            use.update(sampled_use(run["usage"] or {}))
        if not gpus <= set(use):
            use = {**gpu_use(), **use}
    return {
        "runs": found,
        "user": user_name(os.geteuid()),
        "host": os.uname().nodename,
        "t": time.time(),
        "gpu_use": use,
    }


def describe_run(run_dir: str, *, tail: int) -> dict[str, Any] | None:
    """Return what one run directory says, None when it is none (or goes away just now)."""
    spec = read_json(os.path.join(run_dir, "spec.json"))
    if spec is None:
        return None
    state, alive = look(run_dir, {})
    age = None
    with contextlib.suppress(OSError, ValueError), open(os.path.join(run_dir, "client")) as file:
        age = time.monotonic() - float(file.read())
    keep = ("run_id", "job", "host", "node_rank", "nodes", "first_rank", "ranks", "world_size")
    return {
        "run_id": os.path.basename(run_dir),
        "spec": {name: spec.get(name) for name in (*keep, "grace_s", "gpus", "launch")},
        "state": state,
        "alive": alive,
        "detached": spec.get("grace_s") is None or os.path.exists(os.path.join(run_dir, DETACHED)),
        "client_age_s": age,
        "tail": last_bytes(os.path.join(run_dir, "rank-%d.log" % (spec.get("first_rank") or 0)), tail),
    }


def last_bytes(path: str, count: int) -> str:
    """Return the end of a file as text."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read(count).decode("utf-8", "replace")
    except OSError:
        return ""


def last_sample(run_dir: str) -> dict[str, Any] | None:
    """Return what the run's gauge measured last, None when that is long ago: cheaper than asking a driver."""
    for line in reversed(last_bytes(os.path.join(run_dir, USAGE), SAMPLE_BYTES).splitlines()):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            sample = json.loads(line)
            fresh = abs(time.time() - sample["t"]) < SAMPLE_FRESH_S
            return sample if fresh and isinstance(sample.get("gpus"), dict) else None
    return None


def sampled_use(sample: dict[str, Any]) -> dict[str, list[float]]:
    """Return {GPU UUID: [percent busy, MiB used]} of a sample that has both."""
    found: dict[str, list[float]] = {}
    for uuid, gpu in (sample.get("gpus") or {}).items():
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            found[uuid] = [round(float(gpu["busy"])), round(float(gpu["memory_mib"]))]
    return found


def gpu_use() -> dict[str, list[float]]:
    """Return {GPU UUID: [percent busy, MiB used]} as nvidia-smi gives it; empty where it does not."""
    import subprocess

    query = ["nvidia-smi", "--query-gpu=uuid,utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
    found: dict[str, list[float]] = {}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(query, stdin=subprocess.DEVNULL, capture_output=True, timeout=5.0, check=False)
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError):
                uuid, percent, memory = (word.strip() for word in line.split(","))
                found[uuid] = [int(percent), int(memory)]
    return found


def remove_run(run_dir: str) -> None:
    """Delete a run directory. Raises Refused while anything of the run lives."""
    import shutil

    if is_alive(read_json(os.path.join(run_dir, STATE)) or {}):
        raise Refused("%s still runs; stop it first" % os.path.basename(run_dir))
    alive = members(os.getpid(), run_dir, {os.getpid()})
    if alive:
        raise Refused("processes of %s still live: %s" % (os.path.basename(run_dir), sorted(alive)))
    group = group_of(run_dir, read_json(os.path.join(run_dir, STATE)) or {})
    if group is not None:
        group.remove()  # supervisor and guardian were killed together
    gone = os.path.join(os.path.dirname(run_dir), ".%s.%d" % (os.path.basename(run_dir), os.getpid()))
    try:
        os.rename(run_dir, gone)  # so that no half of it is ever taken for a run
        shutil.rmtree(gone)
    except OSError as error:
        raise Refused("%s cannot be removed: %s" % (run_dir, error)) from None


# --- fetch ------------------------------------------------------------------------------

OURS = (
    "rank.py",
    "guard.py",
    GAUGE,
    STACKS,
    CGROUP,
    "lifeline",
    "client",
    RESERVE,
)  # of no use anywhere else


def files_below(top: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield (name, path) of every file; links are left out, so nothing leads elsewhere."""
    for place, directories, names in os.walk(top):
        directories[:] = sorted(name for name in directories if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(place, name)
            if (place != top or name not in OURS or prefix) and not os.path.islink(path):
                yield prefix + os.path.relpath(path, top), path


def send_files(run_dir: str, request: dict[str, Any]) -> int:
    """Send what the other side lacks, as frames: file, offset, the whole size, mtime_ns; then the end.

    `have` is {name: [size, mtime_ns]} of whole files, `part` {name: [[whole size, mtime_ns, bytes there]]}
    of begun ones; a log, which only grows, is sent from the size that is there.
    """
    spec = read_json(os.path.join(run_dir, "spec.json")) or {}
    output = str((spec.get("launch") or {}).get("output") or "") if request.get("output") else ""
    output = os.path.expanduser(output.replace("{run_dir}", run_dir))
    skipped = []
    every = list(files_below(run_dir, ""))
    if output and os.path.isabs(output):
        every += files_below(output, "output/")
    for name, path in every:
        try:
            send_file(name, path, request)
        except (OSError, UnicodeError) as error:
            skipped.append([name.encode("utf-8", "replace").decode(), str(error)])
    end = {"end": read_json(os.path.join(run_dir, STATE)) or {}, "skipped": skipped, "t": time.time()}
    write_all(frame(end))
    return 0


def send_file(name: str, path: str, request: dict[str, Any]) -> None:
    """Send one file from where the other side's copy ends. Raises OSError when it cannot be read."""
    name.encode()  # a name that is no text cannot be said in JSON
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return
        size, mtime = found.st_size, found.st_mtime_ns
        have, parts = request.get("have", {}).get(name), request.get("part", {}).get(name, [])
        grows = "/" not in name and name.endswith((".log", ".jsonl"))
        if have and (have == [size, mtime] or (grows and have[0] >= size)):
            return
        begun = [part[2] for part in parts if part[:2] == [size, mtime]]
        offset = have[0] if have and grows else max(begun, default=0)
        while True:
            data = os.pread(fd, min(CHUNK, size - offset), offset)
            header = {"file": name, "offset": offset, "whole": size, "mtime_ns": mtime, "grows": grows}
            write_all(frame({**header, "size": len(data)}, data))
            offset += len(data)
            if offset >= size:
                return
            if not data:
                raise OSError(errno.EIO, "became shorter while it was read")
    finally:
        os.close(fd)


def write_all(data: memoryview) -> None:
    """Write to the client, however long it takes."""
    while data:
        data = data[os.write(1, data) :]


# --- the door ---------------------------------------------------------------------------


def say(document: dict[str, Any]) -> None:
    """Print the marker line that the client looks for after any login noise."""
    data = ("%s %s\n" % (MARKER, json.dumps(document))).encode()
    while data:
        data = data[os.write(1, data) :]


def find_run(run_id: str) -> str:
    """Return the directory of a run. Raises Refused when it is not on this host."""
    path = os.path.join(runs_dir(), run_id)
    if (
        not run_id
        or "/" in run_id
        or run_id.startswith(".")
        or not stat.S_ISDIR(os.stat(path).st_mode if os.path.exists(path) else 0)
    ):
        raise Refused("no run called %s on this host" % run_id)
    return path


def stop_and_wait(run_dir: str, request: dict[str, Any]) -> dict[str, Any]:
    """Ask for the end and wait for it; return the last state."""
    grace_s = float(request.get("grace_s", STOP_GRACE_S))
    request_stop(run_dir, grace_s, str(request.get("why") or "asked to stop"))
    give_up = time.monotonic() + grace_s + KILL_WAIT_S + 5.0
    while time.monotonic() < give_up:
        state = read_json(os.path.join(run_dir, STATE)) or {}
        if state.get("phase") == "ended" or not is_alive(state):
            break
        time.sleep(0.05)
    return read_json(os.path.join(run_dir, STATE)) or {}


def stacks_of(run_dir: str, state: dict[str, Any]) -> dict[str, str]:
    """Return what each rank's log of stacks got when it was asked just now, by file name."""
    import subprocess

    source = os.path.join(run_dir, STACKS)
    if not is_alive(state):
        raise Refused("%s does not run on this host any more" % os.path.basename(run_dir))
    if not os.path.exists(source):
        raise Refused("%s was started by a gpulaunch that could not ask this" % os.path.basename(run_dir))
    before = log_sizes(run_dir)
    argv = [sys.executable, "-ISE", source, run_dir]
    with contextlib.suppress(subprocess.TimeoutExpired):
        null = subprocess.DEVNULL
        subprocess.run(argv, stdin=null, stdout=null, stderr=null, timeout=STACKS_WAIT_S, check=False)
    found = {}
    for name in log_sizes(run_dir):
        if name.startswith("stacks-"):
            with open(os.path.join(run_dir, name), "rb") as file:
                file.seek(before.get(name, 0))
                found[name] = file.read(STACKS_SENT).decode("utf-8", "replace")
    return found


def serve(request: dict[str, Any], early: Any = None) -> int:
    """Carry out one request; return the exit code of the client-side process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a local terminal is the client's to hear
    mode = request["mode"]
    if mode == "start":
        spec = request["spec"]
        run_dir = make_run_dir(spec)
        state = daemonise(spec, run_dir, early)
        say({"state": state, "t": time.time()})
        return Follower(run_dir, {}).run()
    if mode == "list":
        say(list_runs(request))
        return 0
    run_dir = find_run(request["run_id"])
    state = read_json(os.path.join(run_dir, STATE)) or {}
    if mode == "follow":
        if not request.get("viewer"):
            touch_client(run_dir)
        say({"state": state, "alive": is_alive(state), "sizes": log_sizes(run_dir), "t": time.time()})
        return Follower(run_dir, request).run()
    if mode == "fetch":
        say({"state": state, "t": time.time()})
        return send_files(run_dir, request)
    if mode == "remove":
        remove_run(run_dir)
    if mode == "stacks":
        say({"stacks": stacks_of(run_dir, state), "t": time.time()})
        return 0
    if mode == "stop":
        state = stop_and_wait(run_dir, request)
    say({"state": state, "alive": is_alive(state), "t": time.time()})
    return 0


def main(request: bytes, early: Any = None) -> int:
    """Entry of the bootstrap: request is the JSON document that followed this file on stdin."""
    try:
        return serve(json.loads(request), early)
    except Refused as refusal:
        say({"refused": str(refusal)})
        return 3
