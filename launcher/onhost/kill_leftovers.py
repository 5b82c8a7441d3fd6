"""Streamed program: end exactly the selected processes of the host, after verifying each one again.

Reads from stdin a JSON object: `victims` (objects of pid, start_ticks, ppid, uid, and mark for leftovers of a
dead run), `term_grace_s`, `kill_grace_s`, `note` (for the audit log); answers in one line (answer.py). Each
victim is opened as a pidfd, then its identity (pid, start time), parent and owner are compared with the
selection; a victim that has changed is skipped. A mark names the supervisor that started the victim
(BOOT_ID:PID_NAMESPACE:TIME_NAMESPACE:PID:START_TICKS): the victim must still carry it, and that supervisor
must be gone. A mark from another PID namespace proves nothing. SIGTERM and SIGCONT come first, then SIGKILL
for processes that outlive the grace period with the same identity. Never a tree, a group or a name.

Standard library only, Python >= 3.9.
"""

import errno
import json
import os
import re
import select
import signal
import sys
import time
from typing import Any, Dict, List, Set

from preflight.probes.namespaces import is_own_proc, is_pid_taken, read_namespace_pids, read_own_namespace

from .answer import print_answer
from .procfs import is_alive, read_stat, read_text

SCHEMA = "gpulaunch.reap/1"


def list_ancestors() -> Set[int]:
    """Return the pids of this process and its ancestors: never signalled."""
    pids: Set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        found = read_stat(pid)
        pid = found.ppid if found else 0
    return pids


def is_held(pid: int, fd: int) -> bool:
    """Return whether a pidfd refers to the process that /proc shows under this pid."""
    try:
        with open("/proc/self/fdinfo/%d" % fd, "rb") as file:
            found = re.search(rb"^Pid:\s+(-?[0-9]+)$", file.read(), re.MULTILINE)
    except OSError:
        return False
    return found is not None and int(found.group(1)) == pid


def live_reason(pid: int, mark: str) -> str:
    """Return the reason why a run's mark no longer proves that its supervisor is gone, or ""."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            marks = file.read(1 << 20).split(b"\0")
        inside = len(read_namespace_pids(pid)) == 1
        with open("/proc/sys/kernel/random/boot_id") as boot:
            here = [boot.read().strip(), read_own_namespace("pid"), read_own_namespace("time")]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    except OSError as error:
        return "the mark of its run cannot be read (%s)" % (error.strerror or error)
    words = mark.split(":")
    if b"GPULAUNCH_SUPERVISOR=" + mark.encode("utf-8", "replace") not in marks:
        return "it does not carry the mark of its run any more"
    if not inside or not all(here) or words[:3] != here or len(words) != 5:
        return "its run was started in another PID namespace"
    if not all(re.match(r"[0-9]{1,19}$", word) for word in words[3:]):
        return "the mark of its run is not of our form"
    return "its supervisor lives" if is_process(int(words[3]), int(words[4])) else ""


def is_process(pid: int, start_ticks: int) -> bool:
    """Return whether a process with this pid exists, including one that /proc does not show."""
    found = read_stat(pid)
    if found is None and is_pid_taken(pid):
        found = read_stat(pid)  # not None: it has started since
        return found is None or is_alive(found, start_ticks)
    return is_alive(found, start_ticks)


def explain_refusal(victim: Dict[str, Any], untouchable: Set[int]) -> str:
    """Return the reason to skip this victim, or ""."""
    pid = victim["pid"]
    if pid in untouchable or pid <= 1:
        return "it is part of the session that asks"
    found = read_stat(pid)
    try:
        uid = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return "gone"
    if found is None:
        return "gone"
    if found.start_ticks != victim["start_ticks"]:
        return "the pid belongs to another process now"
    if uid != victim["uid"]:
        return "its owner changed since it was judged"
    if found.ppid != victim["ppid"]:
        return "its parent changed since it was judged"
    return "" if found.lives else "gone"


class ProcessHandle:
    """A victim held by its pidfd, so that a signal can never reach a process that took its pid."""

    def __init__(self, victim: Dict[str, Any]) -> None:
        self.victim = victim
        self.pid: int = victim["pid"]
        self.fd = -1
        self.result = ""
        self.signals: List[str] = []

    def open(self, untouchable: Set[int]) -> None:
        """Open the process and verify that it is the selected one."""
        if not is_own_proc():
            self.result = "skipped: /proc is that of another PID namespace"
            return
        if hasattr(os, "pidfd_open"):
            try:
                self.fd = os.pidfd_open(self.pid)
            except OSError as error:
                if error.errno == errno.ESRCH:
                    self.result = "gone"
                    return
                # An old kernel (before 5.3): identity is compared instead, right before each signal.
                self.fd = -1
        if self.fd >= 0 and not is_held(self.pid, self.fd):
            self.result = (
                "gone"
                if read_stat(self.pid) is None
                else "skipped: its pid is that of another process in this namespace"
            )
            return
        reason = self.identity_problem(untouchable)
        if reason:
            self.result = "gone" if reason == "gone" else "skipped: " + reason

    def identity_problem(self, untouchable: Set[int]) -> str:
        """Return the reason to skip it, or ""."""
        reason = explain_refusal(self.victim, untouchable)
        # An exiting process has no environment any more: the mark is checked before the first signal only.
        return reason or (
            live_reason(self.pid, self.victim["mark"]) if self.victim["mark"] and not self.signals else ""
        )

    def send(self, number: "signal.Signals", untouchable: Set[int]) -> None:
        """Verify the process again, then send one signal."""
        reason = self.identity_problem(untouchable)
        # After the first signal a parent may change (its own parent may be a victim too): identity decides.
        if reason and not (self.signals and reason.startswith("its parent")):
            self.result = "ended" if reason == "gone" else "skipped: " + reason
            return
        try:
            if self.fd >= 0 and hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(self.fd, number)
            else:
                os.kill(self.pid, number)
            self.signals.append(number.name)
        except ProcessLookupError:
            self.result = "ended"
        except PermissionError:
            self.result = "denied: not permitted to signal it"

    def is_alive(self) -> bool:
        """Whether the process still runs (a zombie does not)."""
        return is_alive(read_stat(self.pid), self.victim["start_ticks"])

    def close(self) -> None:
        """Close the pidfd."""
        if self.fd >= 0:
            os.close(self.fd)


def wait_all(targets: List[ProcessHandle], seconds: float) -> List[ProcessHandle]:
    """Wait at most `seconds` until no target runs; mark those that ended."""
    deadline = time.monotonic() + seconds
    while True:
        left = []
        for target in targets:
            if target.result:
                continue
            if target.is_alive():
                left.append(target)
            else:
                target.result = "ended"
        rest = deadline - time.monotonic()
        if not left or rest <= 0:
            return left
        ends = select.poll()  # a select takes no descriptor from 1024 on
        for target in left:
            if target.fd >= 0:
                ends.register(target.fd, select.POLLIN)
        ends.poll(1000 * min(rest, 0.2))


def explain_survivor(target: ProcessHandle) -> str:
    """Return the reason why a target outlived SIGKILL."""
    found = read_stat(target.pid)
    if found is None:
        return "ended"
    if found.state == "D":
        where = read_text("/proc/%d/wchan" % target.pid)
        return "survived: state D%s; SIGKILL waits until the kernel call returns" % (
            " in " + where if where else ""
        )
    return "survived: state %s after SIGKILL" % found.state


def kill_processes(
    victims: List[Dict[str, Any]], term_grace_s: float, kill_grace_s: float
) -> List[Dict[str, Any]]:
    """End the victims; return one record for each."""
    untouchable = list_ancestors()
    targets = [ProcessHandle(victim) for victim in victims]
    for target in targets:
        target.open(untouchable)
    for target in targets:
        # A stopped process takes SIGTERM only once it runs again; queue SIGTERM before it does.
        for number in (signal.SIGTERM, signal.SIGCONT):
            if not target.result:
                target.send(number, untouchable)
    left = wait_all(targets, term_grace_s)
    for target in left:
        target.send(signal.SIGKILL, untouchable)
    for target in wait_all(left, kill_grace_s):
        target.result = explain_survivor(target)
    for target in targets:
        target.close()
    return [
        {
            "pid": target.pid,
            "start_ticks": target.victim["start_ticks"],
            "result": target.result,
            "signals": target.signals,
        }
        for target in targets
    ]


def write_audit(records: List[Dict[str, Any]], note: str) -> str:
    """Append the actions to the user's audit log on this host; return its path, or why that failed."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    # One file per host: over NFS, simultaneous appends of two hosts overwrite each other.
    host = re.sub(r"[^A-Za-z0-9.-]", "_", os.uname().nodename)[:64]
    path = os.path.join(base, "gpulaunch", "audit-%s.jsonl" % host)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = [json.dumps(dict(record, at=at, note=note), ensure_ascii=True) + "\n" for record in records]
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write("".join(lines))
    except OSError as error:
        return "not written: %s" % error
    return path


def main() -> int:
    """Read the request, kill, answer."""
    request = json.load(sys.stdin)
    # The audit line comes first: nothing is killed without a record, and its failure is still reported.
    intent = [dict(victim, result="about to signal") for victim in request["victims"]]
    log = write_audit(intent, request.get("note", ""))
    records = kill_processes(request["victims"], request["term_grace_s"], request["kill_grace_s"])
    write_audit(records, request.get("note", ""))
    print_answer({"schema": SCHEMA, "records": records, "audit": log})
    return 0


if __name__ == "__main__":
    sys.exit(main())
