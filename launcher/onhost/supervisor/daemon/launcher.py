"""The launcher process: its command, its environment, and its tie to the supervisor's life."""

import os
import re
import signal
from typing import Any

from ...run_cgroup import Cgroup
from ..files import read_tail
from ..processes import PR_SET_PDEATHSIG, call_prctl, read_start_ticks, run_markers
from ..protocol import RequestRefused
from ..run_dir import LAUNCHER_LOG
from .supervised_run import SupervisedRun

RANK = "{run_dir}/rank.py"
# Of the one rank of accelerate's simple launcher, and of each that failed under torch's elastic one.
SIMPLE_SAYS = re.compile(r"died with <Signals\.\w+: (\d+)>|non-zero exit status (\d+)", re.ASCII)
ELASTIC_SAYS = re.compile(r"rank +: (\d+) \(local_rank: \d+\)\s+exitcode +: (-?\d+)", re.ASCII)


class Launcher:
    """Process that starts the ranks of this node."""

    def __init__(self, run: SupervisedRun, group: Cgroup | None) -> None:
        self._run = run
        self._group = group
        self.pid = 0
        self.code: int | None = None

    def start(self) -> None:
        """Start the launcher. Raises RequestRefused."""
        spec = self._run.spec
        argv, env = build_command(spec, self._run.dir), build_environment(spec, self._run.dir)
        cwd = os.path.expanduser((spec.get("cwd") or "~").replace("{run_dir}", self._run.dir))
        self.pid = self._fork(argv, env, cwd)
        self._run.state["launcher"] = [self.pid, read_start_ticks(self.pid)]

    def _fork(self, argv: list[str], env: dict[str, str], cwd: str) -> int:
        failed, report = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            try:
                self._become(argv, env, cwd)
            except BaseException as error:
                os.write(report, str(error).encode("utf-8", "replace")[:1000])
            finally:
                os._exit(127)
        os.close(report)
        problem = os.read(failed, 1000).decode("utf-8", "replace")
        os.close(failed)
        if problem:
            os.waitpid(pid, 0)
            raise RequestRefused("the launcher cannot be started (%s in %s): %s" % (argv[0], cwd, problem))
        return pid

    def _become(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        parent = os.getppid()
        os.setsid()
        call_prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        if self._group is not None:
            self._group.add(os.getpid())
        os.chdir(cwd)
        log = os.open(self._run.path(LAUNCHER_LOG), os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in range(1, signal.SIGSYS + 1):  # Python ignores SIGPIPE and SIGXFSZ, the supervisor more
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        os.umask(self._run.spec["umask"])
        os.execvpe(argv[0], argv, env)  # noqa: S606 - deliberately without a shell


def build_command(spec: dict[str, Any], run_dir: str) -> list[str]:
    """Return the command line up to rank.py with the run directory filled in, and the script's unchanged."""
    argv = list(spec["argv"])
    ours = argv.index(RANK) + 1 if RANK in argv else len(argv)
    # A script sent with the launch is in the run directory too; its name follows rank.py.
    script = {"{run_dir}/" + name for name, _ in spec.get("files", [])}
    if ours < len(argv) and argv[ours] in script:
        ours += 1
    argv[0] = os.path.expanduser(argv[0])
    return [word.replace("{run_dir}", run_dir) for word in argv[:ours]] + argv[ours:]


def build_environment(spec: dict[str, Any], run_dir: str) -> dict[str, str]:
    """Return the supervisor's environment, scrubbed, with the plan's variables and the run's markers."""
    unset = spec.get("unset", [])  # names and PREFIX* patterns
    starts = tuple(name[:-1] for name in unset if name.endswith("*"))
    env = {
        name: text for name, text in os.environ.items() if name not in unset and not name.startswith(starts)
    }
    for name, value in spec.get("env", {}).items():
        env[name] = value.replace("{run_dir}", run_dir)
    return {**env, **run_markers(spec["run_id"], run_dir)}


def read_logged_codes(run_dir: str, ranks: list[int]) -> dict[int, int]:
    """Return the exit codes of ranks that the launcher reaped first, from its own failure report."""
    text = read_tail(os.path.join(run_dir, LAUNCHER_LOG), 65536)
    found = {int(rank): int(code) for rank, code in ELASTIC_SAYS.findall(text)}
    said = SIMPLE_SAYS.findall(text)
    if said and len(ranks) == 1:
        by_signal, status = said[-1]
        found.setdefault(ranks[0], -int(by_signal) if by_signal else int(status))
    return {rank: found[rank] for rank in ranks if rank in found}
