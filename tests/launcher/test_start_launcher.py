"""What a launcher finds under start_launcher.py is what it finds under `python -m`."""

import json
import subprocess
import sys
from pathlib import Path

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
