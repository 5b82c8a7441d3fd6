"""The packaged run config on simulated GPUs, through the command line: what is decided and what is passed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.render_json import encode_preflight
from launcher.remote.agent import GatherResult
from preflight.job import Job
from tests.users import TORCH_BUILD, User

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler"),
]
FLAGS = ("--fp16", "--bf16")
KERNEL_LOG = "HEAL002"
"""Unknown to whoever may not read the kernel's log: an ordinary user, most often."""


def plan_on(home: Path, profile: str, *words: str) -> dict[str, Any]:
    code, plan = User(home, profile).ask(
        "run", "--dry-run", "--config", "paper_r64", "--ignore", TORCH_BUILD, *words
    )
    assert code == 0, plan
    return plan


def told_the_script(plan: dict[str, Any]) -> list[str]:
    (node,) = plan["nodes"]
    return [word for word in node["argv"] if word in FLAGS]


def reasons(plan: dict[str, Any]) -> list[str]:
    return [why["text"] for why in plan["reasons"]]


@pytest.mark.parametrize(
    ("profile", "precision", "flags", "why"),
    [
        ("titan-rtx", "fp16", ["--fp16"], "localhost has TITAN RTX, compute capability 7.5"),
        ("2xl40s", "bf16", ["--bf16"], "localhost has L40S, compute capability 8.9"),
        ("v100", "fp16", ["--fp16"], "compute capability 7.0"),
        ("p100", "no", [], "compute capability 6.0"),
        ("gtx-1660", "no", [], "compute capability 7.5"),
        ("8xh100", "bf16", ["--bf16"], "compute capability 9.0"),
        ("", "no", [], "all ranks run on the CPU"),
    ],
)
def test_the_packaged_config_gets_what_its_gpus_can_do_and_tells_its_script(
    tmp_path: Path, profile: str, precision: str, flags: list[str], why: str
) -> None:
    words = () if profile else ("--gpus", "none")
    plan = plan_on(tmp_path, profile, *words)
    assert plan["mixed_precision"] == precision
    assert told_the_script(plan) == flags
    assert why in reasons(plan)[0]
    (node,) = plan["nodes"]
    config = yaml.safe_load(node["files"].get("accelerate.yaml", "{}"))
    assert config.get("mixed_precision", node["env"].get("ACCELERATE_MIXED_PRECISION")) == precision


def test_a_run_is_called_as_the_option_says(tmp_path: Path) -> None:
    plan = plan_on(tmp_path, "", "--gpus", "none", "--name", "lr-3")
    assert plan["run_id"].rsplit("-", 3)[0] == "lr-3"


def test_fp16_is_chosen_with_float32_parameters_and_the_line_that_shows_them(tmp_path: Path) -> None:
    plan = plan_on(tmp_path, "titan-rtx")
    (held,) = [why for why in plan["reasons"] if "trained parameters are float32" in why["text"]]
    assert held["source"].startswith("paper_r64.py:")
    assert "get_peft_model" in held["source"]


TRAIN = """
import torch
from accelerate import Accelerator
from nets.net import Net
accelerator = Accelerator()
net = Net()
optimizer = torch.optim.AdamW(net.parameters())
net, optimizer = accelerator.prepare(net, optimizer)
accelerator.backward(net(torch.randn(4, 8)).mean())
optimizer.step()
"""
NET = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(8, 1{dtype})
    def forward(self, x):
        return self.line(x)
"""


@pytest.mark.parametrize(("dtype", "precision"), [("", "fp16"), (", dtype=nn.unknown", "no")])
def test_a_model_from_a_module_of_the_scripts_own_is_known_on_this_machine(
    tmp_path: Path, dtype: str, precision: str
) -> None:
    user = User(tmp_path, "titan-rtx")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "net.py").write_text(NET.format(dtype=dtype))
    code, plan = user.ask("run", "train.py", "--dry-run", "--ignore", TORCH_BUILD)
    assert (code, plan["mixed_precision"]) == (0, precision)


def test_preflight_says_the_same_as_the_plan(tmp_path: Path) -> None:
    ignored = f"{TORCH_BUILD},{KERNEL_LOG}"
    code, document = User(tmp_path, "titan-rtx").ask(
        "preflight", "--config", "paper_r64", "--ignore", ignored
    )
    assert code == 0, document["findings"]
    assert document["would_use"]["precision"] == "fp16"
    assert "TITAN RTX" in document["would_use"]["why_precision"]


def test_bf16_asked_of_a_titan_is_corrected_in_the_launch_and_in_the_scripts_arguments(
    tmp_path: Path,
) -> None:
    plan = plan_on(tmp_path, "titan-rtx", "--precision", "bf16", "--", "--bf16")
    assert plan["mixed_precision"] == "fp16"
    assert told_the_script(plan) == ["--fp16"]
    changed = {change["field"]: (change["old"], change["new"], change["why"]) for change in plan["changes"]}
    assert changed["--precision"][:2] == ("bf16", "fp16")
    assert "TITAN RTX" in changed["--precision"][2]
    assert changed["script arguments"][:2] == ("--bf16", "--fp16")


def test_where_no_host_can_be_used_the_document_has_what_to_do() -> None:
    error = HostError("a", "no route", "look at the cable")
    result = evaluate_facts([HostEntry("a")], GatherResult({}, {"a": error}), Job())
    assert encode_preflight(result)["would_use"]["fix"] == "look at the cable"
