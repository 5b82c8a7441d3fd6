"""What accelerate starts as each rank: it prepares the process and then becomes the user's script.

    rank.py SCRIPT args...      rank.py -m MODULE args...        (as `python` itself would take them)

It lies in the run directory, put there by the supervisor, and runs in the training environment's Python.
Before the script: output goes to rank-N.log, the visible GPUs are narrowed where the plan says so, and the
process group is tied to the supervisor's life. Beside the script: what torch.distributed and accelerate have
set up is written to events.jsonl, without importing either. The script itself sees what it would see under
plain `python`: argv, sys.path[0], `__main__`, pickling, exit codes, tracebacks. Its failures harm nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any, Callable, Sequence

EVENTS = "events.jsonl"
TEXT_LIMIT = 4000
TAIL_LINES = 30
OUR_MODULES = "gpulaunch_"
"""With this begins what tracebacks call the modules that came beside this file; users' files are absolute."""

Report = Callable[..., None]


def attempt(what: str, report: Report, action: Callable[[], object]) -> None:
    """Run one of our own actions; its failure is reported and never reaches the script."""
    try:
        action()
    except Exception as error:
        with contextlib.suppress(Exception):
            report("guard_failed", what=what, error=repr(error)[:TEXT_LIMIT])


# --- who am I --------------------------------------------------------------------------------


class Place:
    """Where in the run this rank stands: read from the launcher's environment and expected.json."""

    def __init__(self, run_dir: str) -> None:
        self.run_dir = run_dir
        self.pid = os.getpid()
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        try:
            with open(os.path.join(run_dir, "expected.json"), "rb") as file:
                first = int(json.loads(file.read()).get("first_rank", 0))
        except (OSError, ValueError, AttributeError):
            first = 0
        self.rank = int(os.environ.get("RANK", str(first + self.local_rank)))
        self.events = os.path.join(run_dir, EVENTS)

    def report(self, event: str, **fields: object) -> None:
        """Append one line to events.jsonl in one write; forked children of the rank keep quiet."""
        if os.getpid() != self.pid:
            return
        line = {"event": event, "rank": self.rank, "t": time.time(), "m": time.monotonic(), **fields}
        fd = os.open(self.events, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(fd, json.dumps(line, default=str).encode() + b"\n")
        finally:
            os.close(fd)


def start_ticks() -> int:
    """Return when this process started, in clock ticks since boot: with the pid, its identity."""
    with open("/proc/self/stat", "rb") as file:
        return int(file.read().rsplit(b")", 1)[1].split()[19])


# --- before the script ---


def redirect_output(place: Place) -> None:
    """Send stdout and stderr to this rank's own log; lines come out whole and at once, as on a terminal."""
    path = os.path.join(place.run_dir, "rank-%d.log" % place.rank)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)


def narrow_gpus(place: Place) -> None:
    """Show this rank only its own GPU, where the plan says so. LOCAL_RANK keeps its meaning."""
    if os.environ.get("GPULAUNCH_MASK") != "1":
        return
    visible = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    os.environ["CUDA_VISIBLE_DEVICES"] = visible[place.local_rank]


def tie_to_supervisor(place: Place) -> None:
    """Have the kernel kill this process group when supervisor and guardian are both gone.

    They hold the write end of a FIFO; when its last writer is gone the kernel signals the owner of each
    reader (F_SETOWN, F_SETSIG, O_ASYNC: fcntl(2)). No thread, so nothing that fork in the script could trip
    over, and it works on a rank that is stopped or ignores signals. The descriptor stays open for good.
    """
    import fcntl

    fd = os.open(os.path.join(place.run_dir, "lifeline"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def introduce(place: Place) -> None:
    """Tell the supervisor and the client who this is, before anything can go wrong."""
    place.report(
        "rank",
        pid=place.pid,
        ticks=start_ticks(),
        local_rank=place.local_rank,
        world_size=int(os.environ.get("WORLD_SIZE", "1")),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
    )


STACKS_SIGNAL = signal.SIGRTMAX - 4  # as in stacks.py; nothing known to us uses it
STACKS_FD = 900  # a high number: out of the way of scripts that close what they believe to be theirs


def answer_for_stacks(place: Place) -> None:
    """Have one signal write where every thread stands into stacks-rank-N.log, stuck in native code or not.

    faulthandler does that in C, without the GIL, and forked workers inherit it. SIGUSR1, SIGUSR2 and the
    script's own faulthandler are left alone.
    """
    import faulthandler
    import fcntl

    path = os.path.join(place.run_dir, "stacks-rank-%d.log" % place.rank)
    low = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, STACKS_FD)
        os.close(low)
    except OSError:  # few descriptors are allowed
        fd = low
    faulthandler.register(STACKS_SIGNAL, file=fd, all_threads=True)


def report_crashes() -> None:
    """Have a segmentation fault in native code leave the Python stack in the rank's log."""
    import faulthandler

    faulthandler.enable()


# --- beside the script -----------------------------------------------------------------------


class Witness:
    """Reports what the training libraries have set up, once they have: world, rank, device, precision."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.last: dict[str, object] = {}
        self.device: Any = None  # of the first model on a GPU that DistributedDataParallel has wrapped
        self.settled = False  # accelerate constructs its states again and again in a training step

    def watch(self) -> None:
        """Look at three modules once they are imported."""
        after_import(
            {
                "accelerate.state": self._accelerate_imported,
                "torch.distributed.distributed_c10d": self._distributed_imported,
                "torch.nn.parallel.distributed": self._parallel_imported,
            },
            self.place.report,
        )

    def _accelerate_imported(self, module: ModuleType) -> None:
        after_call(module.PartialState, "__init__", self._look, self.place.report)
        after_call(module.AcceleratorState, "__init__", self._look, self.place.report)

    def _distributed_imported(self, module: ModuleType) -> None:
        after_call(module, "init_process_group", self._look, self.place.report)

    def _parallel_imported(self, module: ModuleType) -> None:
        """Without accelerate, the model that is wrapped tells the device."""
        wrapped = module.DistributedDataParallel
        original = wrapped.__init__

        @functools.wraps(original)
        def wrapper(model: Any, *args: Any, **kwargs: Any) -> None:
            original(model, *args, **kwargs)
            attempt("look at the model", self.place.report, functools.partial(self._look_at, model))

        wrapped.__init__ = wrapper

    def _look_at(self, model: Any) -> None:
        first = next(model.parameters(), None)
        if first is not None and first.device.type == "cuda" and self.device is None:
            self.device = first.device
            self._look()

    def _look(self) -> None:
        """Report what is known by now, when it is more or other than what was last said."""
        if self.settled:
            return
        seen: dict[str, object] = {}
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            seen["world_size"] = distributed.get_world_size()
            seen["world_rank"] = distributed.get_rank()
            seen["backend"] = str(distributed.get_backend())
        if self.device is not None:
            seen["device"] = str(self.device)
            seen["gpu"] = gpu_uuid(self.device)
        state = sys.modules.get("accelerate.state")
        if state is not None:
            seen.update(self._accelerate_state(state))
        if seen and seen != self.last:
            self.last = seen
            self.place.report("state", **seen)

    def _accelerate_state(self, module: ModuleType) -> dict[str, object]:
        # The shared dictionaries themselves: constructing a state here would come back to `_look`.
        shared = module.PartialState._shared_state  # noqa: SLF001
        seen: dict[str, object] = {}
        if "num_processes" in shared and "process_index" in shared and shared.get("device") is not None:
            seen["world_size"] = shared["num_processes"]
            seen["world_rank"] = shared["process_index"]
            seen["device"] = str(shared["device"])
            seen["gpu"] = gpu_uuid(shared["device"])
        whole = module.AcceleratorState._shared_state  # noqa: SLF001
        if "_mixed_precision" in whole:
            state = object.__new__(module.AcceleratorState)
            state.__dict__ = whole
            seen["mixed_precision"] = state.mixed_precision
            self.settled = "device" in seen
        return seen


def load_guard(place: Place) -> None:
    """Load guard.py, which lies beside this file, where the plan asks for the guard or for a rehearsal."""
    if not (os.environ.get("GPULAUNCH_GUARD") or os.environ.get("GPULAUNCH_REHEARSE")):
        return
    from importlib.util import module_from_spec, spec_from_file_location

    name = "_gpulaunch_guard"
    spec = spec_from_file_location(name, os.path.join(place.run_dir, "guard.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - a .py file has a loader
    guard = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(guard)

    own = guard.Place(place.rank, place.local_rank, place.run_dir)
    watch = functools.partial(after_import, report=place.report)
    guard.prepare(own, guard.Tools(place.report, watch, gpu_uuid))


def gpu_uuid(device: Any) -> str:
    """Return the UUID of a CUDA device, "" when it cannot be told without opening CUDA first."""
    torch = sys.modules.get("torch")
    if torch is None or device is None or device.type != "cuda" or not torch.cuda.is_initialized():
        return ""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)  # torch >= 2.4
    if uuid is not None:
        text = str(uuid)
        return text if text.startswith(("GPU-", "MIG-")) else "GPU-" + text
    visible = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    index = device.index or 0
    return visible[index] if index < len(visible) and visible[index].startswith(("GPU-", "MIG-")) else ""


def after_call(owner: Any, name: str, look: Callable[[], None], report: Report) -> None:
    """Wrap a function so that `look` runs after each successful call of it."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        attempt("look after %s" % name, report, look)
        return result

    setattr(owner, name, wrapper)


def after_import(watched: dict[str, Callable[[ModuleType], None]], report: Report) -> None:
    """Call back for each watched module once it has been imported: now, if something did so before us.

    A sitecustomize or a .pth file of the environment may import torch at Python's start.
    """
    for name in [name for name in watched if name in sys.modules]:
        action, module = watched.pop(name), sys.modules[name]
        attempt("look at %s" % name, report, functools.partial(action, module))
    if watched:
        sys.meta_path.insert(0, AfterImport(watched, report))


class AfterImport:
    """A meta path finder that finds nothing itself; it calls back once a watched module has been executed."""

    def __init__(self, watched: dict[str, Callable[[ModuleType], None]], report: Report) -> None:
        self.watched = watched
        self.report = report

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the other finders find a watched module, and have its loader call back."""
        action = self.watched.pop(name, None)
        if action is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                self._hook(spec.loader, action)
                return spec
        return None

    def _hook(self, loader: Any, action: Callable[[ModuleType], None]) -> None:
        if not hasattr(loader, "exec_module"):
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            attempt("look at %s" % module.__name__, self.report, lambda: action(module))

        loader.exec_module = exec_module


# --- the script ------------------------------------------------------------------------------


def become(argv: list[str]) -> Callable[[], object]:
    """Make this process look like `python argv...` to the script; return what runs it."""
    if argv[0] == "-m":
        return _become_module(argv[1], argv[2:])
    return _become_script(argv[0], argv[1:])


def _fresh_main() -> ModuleType:
    """Put an empty `__main__` in the place of ours, so that pickling and spawn find the script's names."""
    sys.modules["_gpulaunch_rank"] = sys.modules["__main__"]  # ours lives on under another name
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __spec__=None, __loader__=None, __package__=None)
    sys.modules["__main__"] = main
    return main


def _set_path0(entry: str) -> None:
    """Replace rank.py's directory in sys.path by what python would have put there."""
    if getattr(sys.flags, "safe_path", False):
        return
    sys.path[0] = entry


def _become_module(name: str, args: list[str]) -> Callable[[], object]:
    import runpy

    sys.argv[:] = ["-m", *args]
    _set_path0(os.getcwd())
    main = _fresh_main()
    main.__dict__.pop("__spec__")
    run = runpy._run_module_as_main  # type: ignore[attr-defined] # noqa: SLF001 - it is what `python -m` runs
    return lambda: run(name)


def _become_script(script: str, args: list[str]) -> Callable[[], object]:
    sys.argv[:] = [script, *args]
    if os.path.isdir(script) or script.endswith((".zip", ".pyz", ".pyzw")):
        import runpy

        _set_path0(os.path.abspath(script))
        _fresh_main()
        run_main = runpy._run_module_as_main  # type: ignore[attr-defined] # noqa: SLF001 - as python itself
        return lambda: run_main("__main__", False)
    from importlib.machinery import SourceFileLoader

    _set_path0(os.path.dirname(os.path.realpath(script)))
    main = _fresh_main()
    path = os.path.abspath(script)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))

    def run() -> None:
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102 - it is the user's script

    return run


class Ending:
    """Reports how the script ended and gives the interpreter the end that it would have had."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.interrupted = False
        atexit.register(self._last)  # registered first, so called last

    def run(self, script: Callable[[], object]) -> None:
        """Run the script; exceptions are shown as python shows them, without our frames."""
        code = 0
        try:
            script()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            raise
        except BaseException as error:
            code = 130 if isinstance(error, KeyboardInterrupt) else 1
            if os.getpid() != self.place.pid:
                raise
            self._failed(error)
            raise SystemExit(code) from None
        finally:
            final = code & 0xFF
            attempt("report the end", self.place.report, lambda: self.place.report("leaving", code=final))

    def _failed(self, error: BaseException) -> None:
        trace = strip(error.__traceback__)
        attempt("report the exception", self.place.report, lambda: self._report(error, trace))
        self.interrupted = isinstance(error, KeyboardInterrupt)
        sys.excepthook(type(error), error.with_traceback(trace), trace)

    def _report(self, error: BaseException, trace: TracebackType | None) -> None:
        import traceback

        inner = innermost(error)
        lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()
        self.place.report(
            "exception",
            type=type(inner).__qualname__,
            message=str(inner)[:TEXT_LIMIT],
            where=where(strip(inner.__traceback__)),
            tail=[line[:400] for line in lines[-TAIL_LINES:]],
        )

    def _last(self) -> None:
        """Python ends an interrupted script by SIGINT itself, so that shells can tell."""
        if os.getpid() == self.place.pid:
            attempt("join gloo's threads", self.place.report, join_gloo)
        if self.interrupted and os.getpid() == self.place.pid:
            sys.stdout.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


GLOO_SETTLE_S = 0.3


def join_gloo() -> None:
    """Let gloo's threads finish before the interpreter ends.

    A thread that wants the GIL of a finalizing Python is ended by pthread_exit, and gloo's C++ turns that
    into an abort ("terminate called without an active exception"): a run that had trained to its end would
    fail. They want it to let go of the last collective's tensors, after the script has been told that it is
    done; a model under DDP keeps them alive when the group is destroyed, so they are given a moment too.
    NCCL's groups are let be: destroying them may wait for other ranks.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return
    if "nccl" not in str(dist.get_backend()):
        dist.destroy_process_group()
        time.sleep(GLOO_SETTLE_S)


def innermost(error: BaseException) -> BaseException:
    """Return the first exception of a chain: what went wrong before what was made of it."""
    seen = set()
    while id(error) not in seen:
        seen.add(id(error))
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None:
            break
        error = before
    return error


def strip(trace: TracebackType | None) -> TracebackType | None:
    """Drop the frames of this file and of runpy from the beginning of a traceback."""
    ours = (__file__, "<frozen runpy>")
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name not in ours and os.path.basename(name) != "runpy.py":
            break
        trace = trace.tb_next
    return trace


def where(trace: TracebackType | None) -> str:
    """Return file:line of the innermost frame in the user's own code, else of the innermost frame."""
    found = own = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        found = "%s:%d" % (name, trace.tb_lineno)
        library = (
            "site-packages" in name
            or "dist-packages" in name
            or name.startswith(("<", sys.base_prefix + "/lib", OUR_MODULES))
        )
        if not library:
            own = found
        trace = trace.tb_next
    return own or found


def main() -> None:
    """Prepare, then become the script."""
    place = Place(os.path.dirname(os.path.abspath(__file__)))
    attempt("redirect the output", place.report, lambda: redirect_output(place))
    attempt("tie the rank to its supervisor", place.report, lambda: tie_to_supervisor(place))
    narrow_gpus(place)  # not attempted: a rank that sees the wrong GPUs must not start
    attempt("introduce the rank", place.report, lambda: introduce(place))
    attempt("report crashes", place.report, report_crashes)
    attempt("answer for stacks", place.report, lambda: answer_for_stacks(place))
    attempt("watch the libraries", place.report, Witness(place).watch)
    if os.environ.get("GPULAUNCH_REHEARSE"):
        load_guard(place)  # not attempted: unguarded, a rehearsal would be a run
    else:
        attempt("load the guard", place.report, lambda: load_guard(place))
    ending = Ending(place)
    ending.run(become(sys.argv[1:]))


if __name__ == "__main__":
    main()
