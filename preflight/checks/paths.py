"""Disk: the paths that the job reads and writes, and the script itself."""

import posixpath
from collections.abc import Iterator, Mapping

from preflight.checks.finding import Problem, Severity, name_some
from preflight.checks.message_text import START_UP, format_gib, format_rsync, quote_path
from preflight.checks.registry import cluster_check, host_check
from preflight.checks.unread_facts import fix_missing, report_unread
from preflight.decide.input_paths import find_input_paths, resolve_host_path
from preflight.facts.host import HostFacts, Identity, PathFacts
from preflight.facts.missing import Missing
from preflight.job import Expect, Job

_WRITTEN = ("output", "run_dir", "tmp", "hf_cache")
_NEEDED = ("output", "run_dir", "tmp")  # a launch without these ends
_OTHERWISE = {
    "hf_cache": "run --set env.HF_HOME=DIRECTORY (or env: in the run config)",
    "tmp": "run --set env.TMPDIR=DIRECTORY (or env: in the run config)",
    "run_dir": f"log in as the owner of that home, or export XDG_STATE_HOME=DIRECTORY as {START_UP}",
}
_RUN_DIR_MIB = 200  # what a run directory needs: records and logs. Checkpoints lie elsewhere.


@host_check("DISK001", gate=True)
def the_paths_can_be_written(paths: tuple[PathFacts, ...], job: Job) -> Iterator[Problem]:
    """The working directory can be entered; output, cache, temporary and run directories can be written.

    A job that cannot write its checkpoint finds out hours after the start. The run directory, where gpulaunch
    keeps records and logs, lies in the home: by NFS root may not write to it (root_squash). Where a sync
    fills the working directory before the launch, that must be writable, too.

    Fix: create the directory or have its owner changed; point `workdir:`, `output:` or HF_HOME elsewhere; for
    the run directory log in as the owner of the home, or export XDG_STATE_HOME, a local disk, in the head of
    the host's ~/.bashrc. The kernel may have made a file system read-only after errors of its disk: that is
    the administrator's.
    Source: access(2) on the path or its nearest existing parent, statvfs.
    """
    written = ("workdir", *_WRITTEN) if job.receives_tree else _WRITTEN  # a sync fills the directory
    for item in paths:
        subject, where = f"{item.role} {item.path}".strip(), item.resolved or item.path
        is_read = item.role == "workdir" and item.role not in written
        wanted, what = (item.exists, "exists") if is_read else (item.writable, "can be written")
        if isinstance(wanted, Missing):
            if is_read or item.role in written:
                yield Problem(
                    f"whether {where} {what} is not known: {wanted.reason}",
                    f"on the host: ls -ld {quote_path(where)}; df {quote_path(where)}",
                    subject=subject,
                    severity=Severity.UNKNOWN,
                )
        elif is_read and not item.exists and not item.file_in_way:
            yield Problem(
                f"{where} does not exist",
                f"mkdir -p {quote_path(where)}   (run --sync makes it; or correct workdir:)",
                subject=subject,
            )
        elif (item.file_in_way or not item.enterable) if is_read else (item.role in written and not wanted):
            message, fix = _unwritable(item, where)
            severity = Severity.WARNING if item.role == "hf_cache" else None
            yield Problem(message, fix, subject=subject, severity=severity)


def _unwritable(item: PathFacts, where: str) -> tuple[str, str]:
    """Return why a path cannot be written, and what helps."""
    otherwise = _OTHERWISE.get(item.role, f"choose another {item.role}")
    if item.file_in_way:
        return (
            f"{where} cannot be a directory: {item.file_in_way} is a file",
            f"rename it on the host, or {otherwise}",
        )
    if item.read_only:
        look = f"on the host: findmnt -T {quote_path(where)}; sudo dmesg says whether its disk has failed"
        return f"{where} is on a file system that is mounted read-only", f"{look}; {otherwise}"
    fix = otherwise if item.role in _OTHERWISE else f"ask its owner, or {otherwise}"
    what = "written" if item.enterable else "entered"
    return f"{where} cannot be {what} by this user{_squashed(item)}", fix


def _squashed(item: PathFacts) -> str:
    """Say what may be behind it on a file server, where root has fewer rights than its owner."""
    by_nfs = not isinstance(item.filesystem, Missing) and item.filesystem.startswith("nfs")
    return ", whom the file server may map to `nobody` if it is root (NFS, root_squash)" if by_nfs else ""


@host_check("DISK002", Severity.WARNING)
def there_is_room(paths: tuple[PathFacts, ...], expect: Expect, job: Job) -> Iterator[Problem]:
    """The file systems that the job writes to have free space and inodes.

    A full disk truncates the checkpoint that was to save the run. One that is full already (no MiB, no inode)
    ends the launch at its first file, and is critical where the launch writes: output, run directory, /tmp,
    and the working directory of a sync.

    Fix: `df -h`, `df -i`, `du -xsh *`; remove old checkpoints; `gpulaunch prune` removes old runs; choose
    another output directory.
    Source: statvfs; thresholds `disk_free_percent`, `disk_free_mib`, `free_inodes_percent` of `expect:`.
    """
    reported: set[object] = set()
    # A mount is reported for what matters.
    needed = ("workdir", *_NEEDED) if job.receives_tree else _NEEDED
    for item in sorted(paths, key=lambda item: item.role not in needed):
        mount = (item.source, item.free_mib)
        if mount in reported or item.role == "input":
            continue
        where, subject = item.resolved or item.path, f"{item.role} {item.path}".strip()
        if isinstance(item.free_mib, Missing) and item.free_mib.code != "not-supported":
            yield report_unread(f"free space at {where}", item.free_mib, subject)
        full, stops = _full(item), item.role in needed
        short = f"{full} free at {where}" if full else _shortage(item, expect)
        if short:
            reported.add(mount)
            severity = Severity.CRITICAL if full and stops else None
            short += ": the launch cannot write to it" if severity else ""
            yield Problem(short, _room(item, inodes="inode" in short), subject=subject, severity=severity)


def _full(item: PathFacts) -> str:
    """Return of what nothing is left that a file could be written to, "" where there is some of each."""
    if item.free_mib == 0 and item.total_mib != 0:
        return "less than 1 MiB"
    return "no inode" if item.free_inodes_percent == 0 else ""


def _room(item: PathFacts, *, inodes: bool) -> str:
    """Return how room is made on the file system."""
    where = item.resolved or item.path
    if (
        item.exists is not True
    ):  # df wants one that exists; a first launch makes the run directory, in the home
        where = "~" if item.role == "run_dir" else posixpath.dirname(where)
    mount = f'"$(df --output=target {quote_path(where)} | tail -1)"'
    look = f"on the host: du -xd1 {'--inodes ' * inodes}{mount} | sort -n | tail shows what fills it"
    if item.role == "run_dir":
        return f"{look}; gpulaunch prune removes old runs from the host; remove what else is not needed"
    return f"{look}; remove what is not needed, or {_OTHERWISE.get(item.role, f'choose another {item.role}')}"


def _shortage(item: PathFacts, expect: Expect) -> str:
    free, total, inodes = item.free_mib, item.total_mib, item.free_inodes_percent
    where = item.resolved or item.path
    run_dir = item.role == "run_dir"
    if not isinstance(free, Missing) and total != 0:  # 0: it has no limit, or counts nothing
        if free < (min(expect.disk_free_mib, _RUN_DIR_MIB) if run_dir else expect.disk_free_mib):
            return f"only {format_gib(free)} free at {where}"
        if not run_dir and not isinstance(total, Missing) and 100.0 * free / total < expect.disk_free_percent:
            return f"only {100.0 * free / total:.1f} % ({format_gib(free)}) free at {where}"
    if not isinstance(inodes, Missing) and inodes < expect.free_inodes_percent:
        return f"only {inodes:.1f} % of the inodes free at {where}"
    return ""


@host_check("DISK003", gate=True)
def the_script_is_there(facts: HostFacts, job: Job) -> Iterator[Problem]:
    """The training script lies on the host, where the run config says.

    Ranks of a host without it end at once, and the other hosts wait for them.

    Fix: `gpulaunch run --sync` sends the local tree with the script in it (`sync: true` in the run config, by
    which preflight judges too); or copy it to the host, or correct `workdir:`.
    Source: the file itself, and its SHA-256.
    """
    if not job.script or job.send_script:
        return
    if isinstance(facts.script, Missing):
        absent = facts.script.code == "not-found"
        fix = f"copy it to {facts.host}, or correct script: and workdir:"
        if not job.receives_tree:  # else the tree that is sent has no such file
            fix = f"gpulaunch run --sync sends it where the local tree has it (or sync: true); or {fix}"
        yield Problem(
            f"{job.script}: {facts.script.reason}",
            fix if absent else fix_missing(facts.script),
            severity=None if absent else Severity.UNKNOWN,
            subject=job.script,
        )


@cluster_check("DISK004", Severity.WARNING)
def what_the_arguments_name_is_there(hosts: Mapping[str, HostFacts], job: Job) -> Iterator[Problem]:
    """A file or directory that the script's arguments let ranks read exists on every host of the launch.

    A rank without it ends, and the others wait for it. gpulaunch compares the hosts with each other and with
    this machine, and reports a file (`.json`, `.yaml`, `.pt`) that none has where its option says that ranks
    read it (`--config`, `--train_file`). It leaves out options by whose name ranks write, a directory that no
    host has, which the script may make, and names that a library may look for elsewhere (`yolov8n.pt`).

    Fix: copy it to the hosts that lack it, or name a path on a file system that all hosts share.
    Source: stat(2) on each host, of paths in the arguments.
    """
    for given, said in find_input_paths(job).items():
        name, local = f"{said.option} {given}".strip(), given in job.local_inputs
        asked = {host: item for host, facts in hosts.items() if (item := _input(facts, given)) is not None}
        have = [host for host, item in asked.items() if item.exists is True]
        lack = tuple(host for host, item in asked.items() if item.exists is False)
        for host, item in asked.items():
            if isinstance(item.exists, Missing):
                words = f"whether {name} exists is not known: {item.exists.reason}"
                where = quote_path(item.resolved or item.path)
                yield Problem(
                    words, f"on the host: ls -ld {where}; df {where}", given, Severity.UNKNOWN, hosts=(host,)
                )
        if not lack or (local and (job.tree_is_sent or (job.receives_tree and _is_inside(given)))):
            continue  # the sync sends it, or says why not
        if have:
            message = f"{name} exists on {name_some(have)}, and not on {name_some(lack)}"
            fix = f"copy it from {have[0]}, or name a path on a file system that all hosts share"
        elif local:
            message = f"{name} exists on this machine, and not on {name_some(lack)}"
            others = ", and so on for the others" if len(lack) > 1 else ""
            fix = _bring(given, hosts[lack[0]], job, others)
        elif said.required:
            place = asked[lack[0]].resolved or asked[lack[0]].path
            where = "" if place == given else f": it would be {place}"
            message = f"{name} does not exist on {name_some(lack)}{where}"
            fix = "correct the path, or copy the file to the host"
        else:
            continue
        yield Problem(message, fix, given, hosts=lack)


def _input(facts: HostFacts, given: str) -> PathFacts | None:
    """Return what a host answered of a path in the arguments, None where it was not asked for it."""
    items = () if isinstance(facts.paths, Missing) else facts.paths
    workdir = next((item.path for item in items if item.role == "workdir"), "")
    places = (given, resolve_host_path(given, workdir))
    return next((item for item in items if item.role == "input" and item.path in places), None)


def _is_inside(given: str) -> bool:
    """Return whether a path is one of the tree that a sync sends."""
    return not posixpath.normpath(given).startswith(("/", "~", ".."))


def _bring(given: str, facts: HostFacts, job: Job, others: str) -> str:
    """Return how a path of this machine comes to the hosts: to the first that lacks it, and `others`."""
    if _is_inside(given):
        ignored = f"where .gitignore leaves it out, with --set {quote_path(f'sync.include=[{given}]')}"
        return f"run --sync sends it with the local tree ({ignored}); or copy it to the hosts"
    item, login = _input(facts, given), job.logins.get(facts.host, facts.host)
    place = posixpath.normpath((item and item.resolved) or given)
    folder, other = posixpath.dirname(place), "or name the path that it has on the hosts"
    entered = isinstance(facts.identity, Identity) and facts.identity.container and login == facts.host
    if entered:  # by `via:`; a rented container has an sshd of its own
        where = f"the container of {facts.host}, or mount it at {quote_path(folder)}"
        return f"copy it into {where}{others}; {other}"
    source = posixpath.normpath(given)
    if source == place:  # above it, the host may lack any directory
        return f"{format_rsync('-aR --no-implied-dirs', source, login, '/')}{others}; {other}"
    return f"{format_rsync('-a', source, login, folder + '/')}{others}; {other}"
