"""The table of engines: each row is one module, and nobody outside the package knows one."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

import launcher.engines
from launcher.config.inventory import HostEntry
from launcher.engines import accelerate, torchrun
from launcher.engines.base import ENGINES, Engine, load_engine
from launcher.planning.plan import NodePlan, Plan
from launcher.planning.planner import build_plan
from launcher.report.plan import render_plan
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.job import CommandRequest, Job
from preflight.script.analyze import analyze_script
from tests.hardware import cpu_host, l40s, titan
from tests.launcher.layers import edges

PACKAGE = "launcher.engines"
MODULES = {"accelerate": accelerate.MODULE, "torchrun": torchrun.MODULE}


def test_every_engine_module_is_one_row() -> None:
    modules = Path(launcher.engines.__path__[0]).glob("*.py")
    lying = {path.stem for path in modules if "\nENGINE: " in path.read_text()}
    assert lying == {row.traits.name for row in ENGINES.values()}


def test_outside_its_package_no_engine_is_imported_but_through_the_table() -> None:
    modules = {f"{PACKAGE}.{row.traits.name}" for row in ENGINES.values()}
    assert {row.traits.name for row in ENGINES.values()} == set(ENGINES)
    users = {name for name, found in edges().items() if found & modules and not name.startswith(PACKAGE)}
    assert users == set()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_what_the_interface_asks_for(name: str) -> None:
    engine = load_engine(name)
    for member, of_interface in inspect.getmembers(Engine, inspect.isfunction):
        if not member.startswith("_"):
            assert inspect.signature(getattr(engine, member)) == inspect.signature(
                of_interface.__get__(engine)
            ), member


DDP = """\
import os, torch
import torch.distributed as dist
dist.init_process_group()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
torch.optim.SGD(model.parameters(), lr=0.1).step()
"""
AUTOCAST = DDP + 'with torch.autocast("cuda", torch.bfloat16):\n    model(torch.ones(2, 2).cuda())\n'


def bare(facts: HostFacts) -> HostFacts:
    """Return the host without accelerate."""
    assert not isinstance(facts.python, Missing)
    return replace(facts, python=replace(facts.python, packages={"torch": "2.13.0"}))


def plan(text: str | None, *hosts: HostFacts, **job: object) -> Plan:
    """Return the plan of a script with this text on hosts."""
    script = None if text is None else analyze_script(text, "train.py")
    pairs = [(HostEntry(facts.host), facts) for facts in hosts]
    return build_plan(pairs, replace(Job(script="train.py"), **job), run_id="run-1", script=script)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "engine", "why"),
    [
        (DDP, "torchrun", "written for torchrun, and uses no accelerate"),
        ("import torch\ntorch.optim.SGD([], lr=1).step()\n", "torchrun", "trains with torch alone"),
        ("import deepspeed\n", "torchrun", "imports deepspeed, which goes by torchrun's variables"),
        ("import lightning as L\nL.Trainer().fit(m)\n", "torchrun", "imports lightning"),
        ('import os\nprint(os.environ["RANK"])\n', "torchrun", "written for torchrun"),
        ("# LOCAL_RANK\nprint(1)\n", "accelerate", "reading the script does not decide it"),
        (
            "from accelerate import Accelerator\na = Accelerator()\n",
            "accelerate",
            "the script uses accelerate",
        ),
        ("import accelerate.utils\n" + DDP, "accelerate", "the script imports accelerate"),
        (
            "from transformers import Trainer\nTrainer(model=m).train()\n",
            "accelerate",
            "uses transformers' Trainer",
        ),
        (None, "accelerate", "reading the script does not decide it, and no host lacks accelerate"),
    ],
)
def test_the_engine_is_the_one_that_the_script_is_written_for(
    text: str | None, engine: str, why: str
) -> None:
    made = plan(text, titan(1), l40s(1))
    assert made.engine == engine
    (reason,) = [each for each in made.reasons if each.text.startswith(f"{engine} starts the ranks")]
    assert why in reason.text
    assert made.nodes[0].argv[3] == MODULES[engine]
    assert f"{reason.text} [{reason.source}]" in render_plan(made)


def test_the_line_of_the_script_that_decides_the_engine_is_named() -> None:
    made = plan("import sys\nfrom accelerate import Accelerator\na = Accelerator()\n", titan(1))
    assert (
        "accelerate starts the ranks: the script uses accelerate [train.py:3: a = Accelerator()]"
        in render_plan(made)
    )


def test_a_script_that_does_not_tell_goes_by_torchrun_where_a_host_has_no_accelerate() -> None:
    made = plan(None, titan(1), bare(l40s(1)))
    assert made.engine == "torchrun"
    assert any("l40s-01 has no accelerate" in each.text for each in made.reasons)


def test_the_engine_of_the_run_config_is_taken() -> None:
    made = plan(
        "from accelerate import Accelerator\na = Accelerator()\n",
        titan(1),
        engine=ENGINES["torchrun"].traits,
        precision="fp16",
    )
    assert made.engine == "torchrun"
    assert made.nodes[0].env["ACCELERATE_MIXED_PRECISION"] == "fp16"  # what Accelerator() looks for


def option(node: NodePlan, name: str) -> str:
    """Return what the launcher is given for an option."""
    return node.argv[node.argv.index(name) + 1]


def test_torchrun_is_given_the_real_number_of_ranks_of_each_host() -> None:
    first, second = plan(DDP, titan(2), bare(l40s(1))).nodes
    assert [option(node, "--nproc_per_node") for node in (first, second)] == ["2", "1"]
    assert [option(node, "--node_rank") for node in (first, second)] == ["0", "1"]
    for node in (first, second):
        assert option(node, "--nnodes") == "2"
        assert (option(node, "--rdzv_backend"), option(node, "--rdzv_id")) == ("static", "run-1")
        assert (option(node, "--master_addr"), option(node, "--master_port")) == ("10.77.0.1", "29500")
        assert node.argv[-2:] == ("{run_dir}/rank.py", "train.py")
        assert [name for name, _ in node.files] == ["expected.json"]
        assert not {"PET_RDZV_ID", "PET_*"} - {"PET_*"} & set(node.env)


def test_one_rank_has_a_port_of_its_own_unless_the_user_names_one() -> None:
    alone = plan(DDP, titan(1))
    assert alone.main_port == 43210, "other runs of the host are given the default one"
    assert not any("port" in change.field for change in alone.changes), "nobody asked for one"
    assert any(reason.text.startswith("main port 43210, of this run alone") for reason in alone.reasons)
    assert plan(DDP, titan(1), main_port=29600).main_port == 29600
    assert plan(DDP, titan(2)).main_port == 29500


def test_a_world_of_one_under_torchrun_meets_on_a_port_that_is_free() -> None:
    taken = titan(1)
    assert not isinstance(taken.ports, Missing)
    made = plan(
        DDP, replace(taken, ports=replace(taken.ports, binds=(replace(taken.ports.binds[0], ok=False),)))
    )
    assert made.opens_port
    assert made.nodes[0].env["MASTER_PORT"] == str(made.main_port) == "43210"


@pytest.mark.parametrize("name", MODULES)
def test_one_rank_is_started_without_a_launcher_unless_that_has_something_to_do(name: str) -> None:
    note = "one rank needs no "
    engine, typed = ENGINES[name].traits, CommandRequest(launched_by=name)
    (alone,) = plan(DDP, titan(1), engine=engine, command=typed).nodes
    assert alone.argv == (alone.python, "{run_dir}/rank.py", "train.py")
    assert [name for name, _ in alone.files] == ["expected.json"]
    assert alone.notes[0].startswith(note)
    option_given = CommandRequest(launched_by=name, launcher_args=("--quiet",))
    for nodes in (
        plan(DDP, titan(2), engine=engine, command=typed).nodes,
        plan(DDP, titan(1), l40s(1), engine=engine, command=typed).nodes,
        plan(DDP, titan(1), engine=engine, command=option_given).nodes,
        plan(DDP, titan(1), engine=engine).nodes,  # of the run config
    ):
        assert {node.argv[3] for node in nodes} == {MODULES[name]}
        assert not any(text.startswith(note) for node in nodes for text in node.notes)


@pytest.mark.parametrize(
    ("text", "requested", "why"),
    [
        (DDP, "auto", "torchrun sets no mixed precision, and nothing in the script takes one"),
        (DDP, "fp16", "torchrun sets no mixed precision, and nothing in the script takes one"),
        (AUTOCAST, "auto", "torchrun sets no mixed precision, and the script casts its forward itself"),
    ],
)
def test_a_plain_script_gets_no_mixed_precision_from_the_launch(text: str, requested: str, why: str) -> None:
    made = plan(text, l40s(1), l40s(1, "l40s-02", "10.77.0.5"), precision=requested)
    assert (made.precision.mixed_precision, made.precision.reasons[0].text) == ("no", why)
    changed = [(each.field, each.old, each.new) for each in made.changes]
    assert changed == ([] if requested == "auto" else [("--precision", requested, "no")])


def test_a_plain_script_is_told_by_its_own_arguments() -> None:
    made = plan(DDP, l40s(1), l40s(1, "l40s-02", "10.77.0.5"), precision_args={"bf16": ("--bf16",)})
    assert made.precision.mixed_precision == "bf16"
    assert made.nodes[0].argv[-1] == "--bf16"


def test_ranks_on_the_cpu_are_no_gpu_ranks_for_accelerate_either() -> None:
    node = plan(DDP, cpu_host(), gpus="none", processes_per_host=2).nodes[0]
    assert (node.env["CUDA_VISIBLE_DEVICES"], node.env["ACCELERATE_USE_CPU"]) == ("", "true")
    assert option(node, "--nproc_per_node") == "2"
