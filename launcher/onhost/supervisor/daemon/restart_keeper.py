"""The guardian after a start that has failed: it keeps what a restart needs, and restarts without a client.

It decides nothing itself: a run on one host is restarted by gpulaunch's own client, which came with the
launch (client.pack) and runs on the host as it would on any other machine. What that client needs and the
host lacks, or a run on several hosts, waits for a client that attaches.
"""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import zlib
from typing import Any

from ...exit_status import describe_exit_code
from ..client_files import count_silent_seconds, is_detached, is_stopped_by_person, read_stop_request
from ..files import read_json, read_tail
from ..next_start import ENDED, HELD, OVER, RESTARTED, RESTARTING, WAITS, read_next, try_lock, write_next
from ..processes import PR_SET_CHILD_SUBREAPER, call_prctl
from ..run_dir import CLIENT_PACK, RESTART_FOLDER, SUPERVISOR_LOG

POLL_S = 0.5
QUIET_S = 10.0  # a client that lives is heard every second, and has the lock by then
PYTHON = (3, 11)  # what the client needs; the supervisor itself is content with less
NEWER = range(14, PYTHON[1] - 1, -1)
START = (
    "import json, os, sys; os.read(int(sys.argv[4]), 1); "  # until its keeper has named it, or was killed
    "named = (json.load(open(sys.argv[2] + '/next.json')).get('restarter') or [0])[0] == os.getpid(); "
    "named or sys.exit('its keeper has not named it'); sys.path.insert(0, sys.argv[1]); "
    "from launcher.restart.on_host import main; sys.exit(main())"
)
RESULT = "result.json"
HALF = "its client was lost before it knew that all nodes had started"
PACKED = "code"


def keep_restart(run_dir: str, spec: dict[str, Any]) -> None:
    """Keep what a restart needs until that is decided; make the restart where no client is heard."""
    if read_next(run_dir).get("state") == HELD:
        RestartKeeper(run_dir, spec).keep()


class RestartKeeper:
    """Loop of the keeper, which holds the lock only while it makes the restart itself."""

    def __init__(self, run_dir: str, spec: dict[str, Any]) -> None:
        self._dir = run_dir
        self._spec = spec
        self._fd = int(spec["order_fd"])
        self._quiet_s = float(spec.get("client_quiet_s") or QUIET_S)
        self._hopeless = ""  # why this host cannot make the restart

    def keep(self) -> None:
        """Keep it until another start runs, or there is to be none."""
        call_prctl(PR_SET_CHILD_SUBREAPER, 0)  # the next start's processes are not this one's to reap
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
        while os.path.isdir(self._dir) and read_next(self._dir).get("state") not in OVER:
            if self._asked_to_stop():
                return
            with contextlib.suppress(OSError):  # a full disk: it stays as it is
                self._look()

    def _asked_to_stop(self) -> bool:
        """Wait for POLL_S; return whether it was asked to stop, which is then written.

        A guardian that is not the keeper yet hears no signal: the request itself counts, too.
        """
        came = signal.sigtimedwait({signal.SIGTERM, signal.SIGCHLD}, POLL_S)
        if (came is None or came.si_signo != signal.SIGTERM) and not is_stopped_by_person(self._dir):
            return False
        with contextlib.suppress(OSError):
            if read_next(self._dir).get("state") not in OVER:
                write_next(self._dir, ENDED, why=read_stop_request(self._dir).why, by="host")
        return True

    def _look(self) -> None:
        if (count_silent_seconds(self._dir) or self._quiet_s) < self._quiet_s or not try_lock(self._fd):
            return
        try:
            if int(self._spec.get("nodes") or 1) > 1:
                if not (is_detached(self._dir) or read_next(self._dir).get("whole")):
                    write_next(self._dir, ENDED, why=HALF, by="host")
                    return
                self._hopeless = "it ran on several hosts, which only a client can start again"
            if not self._hopeless:
                self._restart()
            decided = read_next(self._dir)
            if self._hopeless and (decided.get("state"), decided.get("why")) != (WAITS, self._hopeless):
                write_next(self._dir, WAITS, why=self._hopeless, by="host")
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _restart(self) -> None:
        """Have the client of the launch decide and restart; set why it could not."""
        python = self._python()
        if not python:
            self._hopeless = "this host has no Python %d.%d or newer for the restart" % PYTHON
            return
        write_next(self._dir, RESTARTING, by="host")
        place = os.path.join(self._dir, RESTART_FOLDER)  # goes with the run, should this process be killed
        shutil.rmtree(place, ignore_errors=True)
        try:
            unpack_files(os.path.join(self._dir, CLIENT_PACK), os.path.join(place, PACKED))
            self._run_client(python, place)
        except (OSError, ValueError, zlib.error) as error:
            self._hopeless = "the restart on this host failed: %s" % error
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _python(self) -> str:
        """Return an interpreter that the client runs on, "" where there is none."""
        if sys.version_info >= PYTHON:
            return sys.executable
        named = [str((self._spec.get("restart") or {}).get("python") or "")]
        found = [path for path in named if os.access(path, os.X_OK)]
        found += [path for minor in NEWER if (path := shutil.which("python3.%d" % minor) or "")]
        return found[0] if found else ""

    def _run_client(self, python: str, place: str) -> None:
        os.lseek(self._fd, 0, os.SEEK_SET)
        gate, opener = os.pipe()  # it does nothing before next.json names it
        os.set_inheritable(gate, True)
        code_dir = os.path.join(place, PACKED)
        argv = [python, "-I", "-S", "-B", "-c", START, code_dir, self._dir, place, str(gate)]
        log = os.path.join(self._dir, SUPERVISOR_LOG)
        actions = [
            (os.POSIX_SPAWN_DUP2, self._fd, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM)
        pid = os.posix_spawn(
            python, argv, os.environ, file_actions=actions, setpgroup=0, setsigmask=(), setsigdef=numbers
        )
        with contextlib.suppress(OSError):
            write_next(self._dir, RESTARTING, by="host", restarter=pid)
        os.close(opener)
        os.close(gate)
        code: int | None = None
        while code is None:
            if self._asked_to_stop():
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
            done, status = os.waitpid(pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if done else None
        self._take_result(read_json(os.path.join(place, RESULT)) or {}, code)

    def _take_result(self, result: dict[str, Any], code: int) -> None:
        if read_next(self._dir).get("state") in OVER:  # stopped, or the new start has said so itself
            return
        if result.get("state") in (RESTARTED, ENDED):
            why, run_id = str(result.get("why") or ""), str(result.get("run_id") or "")
            if run_id:  # whatever can be written of that
                self._hopeless = "it was started again as %s" % run_id
            write_next(self._dir, result["state"], why=why, run_id=run_id, by="host")
            return
        last = read_tail(os.path.join(self._dir, SUPERVISOR_LOG), 400).strip().rpartition("\n")[2]
        why = str(result.get("why") or "its client %s: %s" % (describe_exit_code(code), last))
        self._hopeless = "the restart on this host failed: %s" % why


def unpack_files(path: str, place: str) -> None:
    """Write the files of a client.pack below a directory. Raises OSError, and ValueError for what is none."""
    with open(path, "rb") as file:
        files = json.loads(zlib.decompress(base64.b64decode(file.read())))
    for name, text in files.items():
        target = os.path.normpath(os.path.join(place, name))
        if not target.startswith(place + os.sep):
            raise ValueError("%r leads out of the package" % name)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        with open(target, "w", encoding="utf-8") as out:
            out.write(text)
