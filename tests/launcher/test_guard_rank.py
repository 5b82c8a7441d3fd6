"""rank.py with the guard beside it: what is loaded when, workers of every kind, scratch directories."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.answer import MARKER
from launcher.remote.program_source import read_program_source
from tests.field_notes.ranks import LIGHT, SHIMS, STOPPED, run_rank

WORKERS = """
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index):
        p = torch.nn.Parameter(torch.zeros(1, dtype=torch.float16))  # a training of the worker's own
        optimizer = torch.optim.AdamW([p]); p.grad = torch.ones_like(p); optimizer.step()
        return torch.tensor([float(index)])
if __name__ == "__main__":
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    for method in ("fork", "spawn", "forkserver"):
        loader = torch.utils.data.DataLoader(Numbers(), num_workers=1, multiprocessing_context=method)
        for batch in loader:
            model(batch).sum().backward(); optimizer.step(); optimizer.zero_grad()
    print("DONE")
"""
FILES = """
import os, shutil, sys
print("SEES", sorted(os.listdir(".")), sorted(os.listdir("output")), sys.argv[1:], os.path.exists("train.py"))
os.makedirs("output/run/checkpoint-5")
open("output/run/checkpoint-5/weights", "w").write("x" * 1000)
open("output/other/new", "w").write("x") if "other" in sys.argv else None
exec(sys.argv[-1]) if len(sys.argv) > 2 else None
"""

NAMESAKES = ("launcher", "guard", "loader", "checks", "rehearsal", "core", "gpulaunch_guard_x")
LOOKS_AROUND = """
import importlib.metadata, inspect, multiprocessing, pickle, pkgutil, sys
import launcher, guard, loader, checks, rehearsal, core, gpulaunch_guard_x
class Thing:
    pass
def seen(_):
    found = [sys.modules[name].__file__ for name in %r]
    importlib.invalidate_caches()
    found += [inspect.getmodule(Thing).__name__, inspect.getsource(seen)[:8], Thing.__module__]
    found += [sys.argv, sys.path[0], sys.warnoptions, len(list(pkgutil.iter_modules()))]
    return [*found, importlib.metadata.version("pytest"), importlib.util.find_spec("no_such_module")]
if __name__ == "__main__":
    print(seen(0), pickle.loads(pickle.dumps(Thing())).__class__ is Thing)
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(seen, [0]), pool.map(type, [Thing()]))
    raise ValueError("at the end")
"""


@pytest.mark.train
def test_workers_of_every_kind_live_unwatched(tmp_path: Path) -> None:
    done = run_rank(tmp_path, WORKERS, shim=LIGHT, GPULAUNCH_GUARD="stop")
    assert done.code == 0, done.log
    assert "DONE" in done.log
    assert not done.reported("guard")
    assert len(done.reported("guard_facts")) == 1


@pytest.mark.train
def test_torch_that_was_imported_before_the_rank_is_watched_too(tmp_path: Path) -> None:
    """As by a .pth file or a sitecustomize of the environment; a rehearsal would else never end."""
    (tmp_path / "sitecustomize.py").write_text((SHIMS / "sitecustomize.py").read_text() + "import torch\n")
    script = (
        "import torch\np = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))\n"
        "optimizer = torch.optim.AdamW([p]); p.sum().backward(); optimizer.step()\n"
    )
    paths = {"PYTHONPATH": f"{tmp_path}:{SHIMS}"}
    done = run_rank(tmp_path, script, shim=LIGHT, **paths, GPULAUNCH_GUARD="stop")
    assert done.stop["code"] == "G1"


def test_without_being_asked_nothing_is_loaded(tmp_path: Path) -> None:
    done = run_rank(tmp_path, "import sys; print([n for n in sys.modules if 'gpulaunch' in n])")
    assert "_gpulaunch_guard" not in done.log


@pytest.mark.slow
def test_beside_the_guard_a_script_finds_its_own_modules_and_sees_what_python_shows(tmp_path: Path) -> None:
    """Modules that are called as the guard's own are, warnings as errors, workers of every kind."""
    work = tmp_path / "work"
    work.mkdir()
    for name in NAMESAKES:
        (work / f"{name}.py").write_text("")
    script, env = LOOKS_AROUND % (NAMESAKES,), {"PYTHONWARNINGS": "error"}
    guarded = run_rank(tmp_path, script, "a", GPULAUNCH_GUARD="stop", **env)
    plain = subprocess.run(
        [sys.executable, "train.py", "a"],
        cwd=work,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    assert "ValueError: at the end" in guarded.log
    assert (guarded.code, guarded.log) == (plain.returncode, plain.stdout.decode())
    assert [each["what"] for each in guarded.reported("internal_error")] == ["tie the rank to its supervisor"]


@pytest.mark.train
def test_an_error_in_backward_is_reported_at_the_users_line(tmp_path: Path) -> None:
    """The guard's own frame lies between it and torch."""
    script = "import torch\np = torch.nn.Parameter(torch.zeros(2))\np.backward()\n"
    done = run_rank(tmp_path, script, shim=LIGHT, GPULAUNCH_GUARD="stop")
    assert "gpulaunch_guard/torch_hooks.py" in done.log
    assert done.reported("exception")[0]["location"] == f"{tmp_path / 'work' / 'train.py'}:3"


@pytest.mark.parametrize("source", ["this is no python", "def prepare(place, tools): raise ValueError(1)"])
def test_a_broken_guard_harms_no_run_and_lets_no_rehearsal_start(tmp_path: Path, source: str) -> None:
    for name, env in (("run", "GPULAUNCH_GUARD"), ("rehearsal", "GPULAUNCH_REHEARSE")):
        root = tmp_path / name
        code, log, events = broken(root, source, env)
        if name == "run":
            assert (code, log) == (0, "SCRIPT RAN\n")
            assert [each["what"] for each in events if "guard" in each.get("what", "")] == ["load the guard"]
        else:
            assert code != 0
            assert "SCRIPT RAN" not in log


def broken(root: Path, source: str, env: str) -> tuple[int, str, list[dict[str, Any]]]:
    root.mkdir()
    (root / "rank.py").write_bytes(read_program_source("rank"))
    (root / "guard.py").write_text(source + "\nPlace = Tools = lambda *_: None\n")
    (root / "events.jsonl").touch()
    (root / "train.py").write_text("print('SCRIPT RAN')")
    done = subprocess.run(
        [sys.executable, "rank.py", "train.py"],
        cwd=root,
        env={"PATH": "", env: "5"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    log = (root / "rank-0.log").read_text()
    events = [json.loads(line) for line in (root / "events.jsonl").read_text().splitlines()]
    return done.returncode, log, events


# --- a rehearsal's scratch directory ---


def former_run(root: Path) -> Path:
    output = root / "work" / "output" / "run"
    output.mkdir(parents=True)
    (output / "checkpoint-9").write_text("of a real run")
    (root / "work" / "output" / "other").mkdir()
    (root / "work" / "data.txt").write_text("data")
    return output


def rehearsed(root: Path, *args: str, **more: str) -> Any:
    env = {"GPULAUNCH_REHEARSE": "5", "GPULAUNCH_OUTPUT": "output/run", "GPULAUNCH_RUN_ID": "r1", **more}
    return run_rank(root, FILES, *args, **env)


def clean(root: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(root / "run" / "guard.py"), "clean"], capture_output=True, check=True, timeout=60
    )
    answer: dict[str, Any] = json.loads(done.stdout.removeprefix(f"\n{MARKER} ".encode()))
    return answer


def test_a_rehearsal_sees_everything_but_the_former_output_and_leaves_nothing(tmp_path: Path) -> None:
    output = former_run(tmp_path)
    done = rehearsed(tmp_path, "{scratch}/here")
    assert done.code == 0, done.log
    scratch = tmp_path / "work" / ".gpulaunch-rehearsal" / "r1"
    assert f"SEES ['data.txt', 'output', 'train.py'] ['other'] ['{scratch}/here'] True" in done.log
    assert (scratch / "output/run/checkpoint-5/weights").exists()
    assert clean(tmp_path) == {"removed": True, "scratch": str(scratch), "changed": []}
    assert [each.name for each in output.iterdir()] == ["checkpoint-9"]
    assert not (tmp_path / "work" / ".gpulaunch-rehearsal").exists()


@pytest.mark.parametrize(
    "harm",
    [
        "shutil.rmtree({real!r})",
        "os.remove({real!r} + '/checkpoint-9')",
        "open({real!r} + '/checkpoint-9', 'a')",
        "os.makedirs({real!r} + '/checkpoint-10')",
        "os.rename({real!r}, 'elsewhere')",
    ],
)
def test_a_script_that_reaches_for_the_real_output_is_stopped_before(tmp_path: Path, harm: str) -> None:
    output = former_run(tmp_path)
    done = rehearsed(tmp_path, "x", harm.format(real=str(output)))
    assert done.code == STOPPED, done.log
    assert done.reported("guard")[0]["code"] == "R1"
    assert (output / "checkpoint-9").read_text() == "of a real run"
    assert clean(tmp_path)["changed"] == []


def test_reading_the_real_output_is_allowed(tmp_path: Path) -> None:
    output = former_run(tmp_path)
    assert rehearsed(tmp_path, "x", f"open({str(output)!r} + '/checkpoint-9').read()").code == 0


def test_what_another_process_changed_there_is_told(tmp_path: Path) -> None:
    output = former_run(tmp_path)
    assert rehearsed(tmp_path, "x").code == 0
    (output / "checkpoint-9").write_text("changed by somebody")
    assert clean(tmp_path)["changed"] == ["checkpoint-9"]


def test_what_a_rank_made_whose_first_neighbour_never_came_is_removed_too(tmp_path: Path) -> None:
    former_run(tmp_path)
    assert rehearsed(tmp_path, "x", LOCAL_RANK="1").code == 0
    assert clean(tmp_path)["scratch"].endswith("/.gpulaunch-rehearsal/r1")
    assert not (tmp_path / "work" / ".gpulaunch-rehearsal").exists()


def test_cleaning_is_harmless_where_no_rank_came_so_far(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "guard.py").write_bytes(read_program_source("guard"))
    assert clean(tmp_path) == {"removed": True, "changed": []}
