"""`gpulaunch init` in a home directory, which no launch sends to a host."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.commands.init import command


def test_a_home_directory_that_no_launch_would_send_gets_no_run_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n")
    refused = CliRunner().invoke(command, ["train.py", "--hosts", "192.0.2.1"])  # which is not asked
    assert "is not a working tree: it holds everything else too" in str(refused.exception)
    assert not Path("gpulaunch").exists()
    assert CliRunner().invoke(command, ["train.py"]).exit_code == 0  # this machine gets no tree
