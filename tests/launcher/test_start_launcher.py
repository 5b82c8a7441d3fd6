"""What a launcher finds under start_launcher.py is what it finds under `python -m`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.remote.program_source import read_program_source

MODULE = """
import gc, json, pack, sys
print(json.dumps([sys.argv, sys.path[0], __name__, __file__, __spec__.name, __package__, gc.isenabled()]))
print(gc.get_freeze_count() > len(pack.MADE), file=sys.stderr)
sys.exit(len(sys.argv))
"""


def test_a_launcher_runs_as_under_python_m_and_its_imports_are_not_collected(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("MADE = [[] for _ in range(1000)]\n")
    (tmp_path / "pack" / "run.py").write_text(MODULE)
    (tmp_path / "run_dir").mkdir()
    program = tmp_path / "run_dir" / "start_launcher.py"
    program.write_bytes(read_program_source("start_launcher"))
    words = ("-m", "pack.run", "--log_dir", "a b", "-m", "x")
    plain, ours = (
        subprocess.run(
            [sys.executable, *start, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        for start in ((), (str(program),))
    )
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout) == (5, ours.stdout)
    file = str(tmp_path / "pack" / "run.py")
    assert json.loads(ours.stdout)[2:] == ["__main__", file, "pack.run", "pack", True]
    assert (plain.stderr.strip(), ours.stderr.strip()) == ("False", "True")


TRIES = """
import os
try:
    import numpy
except ImportError:
    numpy = None
SEEN = numpy is None, os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
"""
NEEDS = TRIES.replace("numpy = None", "raise")
AFTER = """
import json, numpy, os, sys, torch
print(json.dumps([torch.SEEN, os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD"), sys.argv[1:]]))
"""


@pytest.mark.parametrize("autoload", [None, "1"])
@pytest.mark.parametrize("torch", [TRIES, NEEDS])
def test_a_launcher_imports_torch_without_numpy_where_torch_can(
    tmp_path: Path, torch: str, autoload: str | None
) -> None:
    (tmp_path / "numpy.py").touch()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(torch)
    (tmp_path / "torch" / "run.py").write_text(AFTER)
    (tmp_path / "run_dir").mkdir()
    program = tmp_path / "run_dir" / "start_launcher.py"
    program.write_bytes(read_program_source("start_launcher"))
    name = "TORCH_DEVICE_BACKEND_AUTOLOAD"
    env = {each: value for each, value in os.environ.items() if each != name}
    ran = subprocess.run(
        [sys.executable, str(program), "-m", "torch.run", "a b"],
        cwd=tmp_path,
        env=env if autoload is None else {**env, name: autoload},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = [True, "0"] if torch is TRIES else [False, autoload]
    assert json.loads(ran.stdout) == [seen, autoload, ["a b"]]
