"""A user's accelerate config file on its way into the files of a launch."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from launcher.config.accelerate_file import (
    DEEPSPEED_FILE,
    find_local_default,
    read_accelerate_fields,
    read_accelerate_file,
)
from launcher.config.inventory import HostEntry
from launcher.config.run_config import build_command_config, load_run_config
from launcher.engines.base import ENGINES, RUN_DIR
from launcher.engines.command_line.parse import parse_line
from launcher.errors import BadInput
from launcher.planning.plan import Plan
from launcher.planning.planner import build_plan
from preflight.facts.host import HostFacts, PythonEnv
from preflight.job import Job
from preflight.probes.python_env import default_accelerate_config
from tests.hardware import l40s, titan

FSDP = """
distributed_type: FSDP
fsdp_config: {fsdp_version: 2, fsdp_transformer_layer_cls_to_wrap: Block}
mixed_precision: bf16
num_processes: 8
"""
JOB = Job(name="t", script="train.py", engine=ENGINES["accelerate"].traits)


def plan(job: Job, *facts: HostFacts) -> Plan:
    return build_plan([(HostEntry(one.host), one) for one in facts], job, run_id="t-1")


def accelerate_yaml(node: int, made: Plan) -> dict[str, object]:
    text = dict(made.nodes[node].files)["accelerate.yaml"]
    loaded: dict[str, object] = yaml.safe_load(text)
    return loaded


def with_default(facts: HostFacts, text: str) -> HostFacts:
    assert isinstance(facts.python, PythonEnv)
    return replace(facts, python=replace(facts.python, accelerate_config=text))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2001-13-45", ":1: a value that a launch cannot take: month must be in 1..12"),
        ("2001-12-31", "Object of type date"),
        ("!!python/object/apply:os.system [id]", ":2: could not determine a constructor for the tag"),
        ("{? [a] : b}", ":2: found unhashable key"),
        ("9" * 5000, ":2: a number of more than 300 digits"),
    ],
)
def test_a_value_that_no_launch_takes_is_told_with_its_file(tmp_path: Path, value: str, reason: str) -> None:
    (tmp_path / "a.yaml").write_text(
        f"distributed_type: DEEPSPEED\ndeepspeed_config: {{zero_stage: {value}}}\n"
    )
    with pytest.raises(BadInput, match=re.escape(reason)):
        read_accelerate_fields(tmp_path / "a.yaml")


def test_a_named_file_reaches_every_host(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(FSDP, encoding="utf-8")
    job = replace(JOB, **read_accelerate_fields(tmp_path / "fsdp.yaml"))
    made = plan(job, titan(), l40s(1, "l40s"))
    for node, count in enumerate((2, 1)):
        written = accelerate_yaml(node, made)
        assert written["distributed_type"] == "FSDP"
        assert written["fsdp_config"] == {"fsdp_version": 2, "fsdp_transformer_layer_cls_to_wrap": "Block"}
        assert written["num_processes"] == count * 2
        assert written["machine_rank"] == node
    assert any("num_processes 8 of" in reason.text for reason in made.reasons)


def test_a_strategy_without_effect_is_named(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(FSDP + "use_cpu: true\n", encoding="utf-8")
    job = replace(JOB, **read_accelerate_fields(tmp_path / "fsdp.yaml"))
    said = "accelerate has no FSDP on the CPU: the ranks train with DDP"
    assert said in [reason.text for reason in plan(job, titan()).reasons]
    assert said not in [reason.text for reason in plan(replace(job, gpus="all"), titan()).reasons]


def test_one_rank_with_a_strategy_meets_on_the_main_port(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(FSDP, encoding="utf-8")
    made = plan(replace(JOB, **read_accelerate_fields(tmp_path / "fsdp.yaml")), l40s(1, "l40s"))
    assert accelerate_yaml(0, made)["main_process_port"] == made.main_port
    assert "--rdzv_conf" in made.nodes[0].argv
    assert made.nodes[0].env["PET_RDZV_ID"] == "t-1"


def test_a_deepspeed_file_travels_and_holds_the_precision(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"bf16": {"enabled": true}}', encoding="utf-8")
    kept = parse_line("accelerate launch --use_deepspeed --deepspeed_config_file ds.json train.py").kept
    made = plan(replace(JOB, **read_accelerate_fields(None, kept, folder=tmp_path)), l40s(2, "l40s"))
    written = accelerate_yaml(0, made)
    assert written["distributed_type"] == "DEEPSPEED"
    assert written["deepspeed_config"] == {
        "deepspeed_config_file": f"{RUN_DIR}/{DEEPSPEED_FILE}",
        "deepspeed_multinode_launcher": "standard",
    }
    assert "mixed_precision" not in written
    assert dict(made.nodes[0].files)[DEEPSPEED_FILE] == '{"bf16": {"enabled": true}}'
    assert made.precision.mixed_precision == "no"


def test_a_deepspeed_file_that_is_not_local_is_left_to_the_hosts(tmp_path: Path) -> None:
    kept = parse_line("accelerate launch --use_deepspeed --deepspeed_config_file /srv/ds.json t.py").kept
    fields = read_accelerate_fields(None, kept, folder=tmp_path)
    assert fields["accelerate_config"]["deepspeed_config"]["deepspeed_config_file"] == "/srv/ds.json"
    assert "launcher_files" not in fields
    assert "/srv/ds.json is not a local file; every host must have it" in fields["launcher_notes"][0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "distributed_type: [", "a.yaml:1"),
        ("a.yaml", "distributed_type: XLA", "XLA"),
        ("a.yaml", "fsdp_confg: 1", "fsdp_confg"),
        ("ds.json", "{", "not JSON"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    kept = parse_line("accelerate launch --use_deepspeed --deepspeed_config_file ds.json t.py").kept
    with pytest.raises(BadInput) as caught:
        read_accelerate_fields(tmp_path / name if name == "a.yaml" else None, kept, folder=tmp_path)
    assert message in caught.value.message


def test_a_run_config_names_a_file(tmp_path: Path) -> None:
    (tmp_path / "fsdp.yaml").write_text(FSDP + "gpu_ids: '1'\nmain_process_port: 1234\n", encoding="utf-8")
    config = tmp_path / "run.yaml"
    config.write_text("script: train.py\naccelerate_config: fsdp.yaml\n", encoding="utf-8")
    job = load_run_config(str(config)).job
    assert job.accelerate_config is not None
    assert job.accelerate_config["distributed_type"] == "FSDP"
    assert (job.precision, job.gpus, job.main_port) == ("bf16", (1,), 1234)
    config.write_text(
        "script: train.py\naccelerate_config: fsdp.yaml\nprecision: fp16\ngpus: 2\nmain_port: 7\n",
        encoding="utf-8",
    )
    job = load_run_config(str(config)).job
    assert (job.precision, job.gpus, job.main_port) == ("fp16", 2, 7)


def test_a_file_that_is_absent_is_named_with_its_places(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_accelerate_fields("absent.yaml", folder=tmp_path)
    assert f"{tmp_path}/absent.yaml and absent.yaml" in caught.value.message


def test_without_file_and_options_nothing_is_taken_over() -> None:
    assert read_accelerate_fields(None, parse_line("accelerate launch --tee 3 t.py").kept) == {}


def test_the_default_file_of_a_host_is_never_dropped_without_a_word() -> None:
    one, other = titan(), with_default(l40s(1, "l40s"), FSDP)
    made = plan(JOB, one, other)
    assert [accelerate_yaml(node, made)["distributed_type"] for node in (0, 1)] == ["FSDP", "FSDP"]
    said = "FSDP is from accelerate's default_config.yaml of l40s; titan would not have it alone"
    assert said in [reason.text for reason in made.reasons]


def test_a_plan_shows_what_the_file_of_accelerate_sets_and_no_key_that_most_files_have_alike() -> None:
    made = plan(JOB, titan(2))
    (note,) = made.nodes[0].notes
    assert note.startswith('$RUN_DIR/accelerate.yaml: distributed_type: "MULTI_GPU", ')
    assert "num_processes: 2" in note
    assert not {"debug", "main_training_function", "dynamo_config"} & set(re.findall(r"\w+", note))
    assert len(note) < 250


def test_a_default_file_without_a_strategy_changes_nothing() -> None:
    facts = l40s(2, "l40s")
    plain = with_default(facts, "distributed_type: MULTI_GPU\nmixed_precision: fp16\nnum_processes: 7\n")
    assert accelerate_yaml(0, plan(JOB, plain)) == accelerate_yaml(0, plan(JOB, facts))


def test_a_default_file_that_cannot_be_read_is_named() -> None:
    made = plan(JOB, with_default(l40s(2, "l40s"), "distributed_type: TPU"))
    assert any("default_config.yaml of l40s is not taken over" in reason.text for reason in made.reasons)
    assert accelerate_yaml(0, made)["distributed_type"] == "MULTI_GPU"


def test_a_named_file_wins_over_the_default_of_a_host(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("distributed_type: MULTI_GPU\n", encoding="utf-8")
    job = replace(JOB, **read_accelerate_fields(tmp_path / "plain.yaml"))
    made = plan(job, with_default(l40s(2, "l40s"), FSDP))
    assert accelerate_yaml(0, made)["distributed_type"] == "MULTI_GPU"


def test_where_the_default_file_is_found(tmp_path: Path) -> None:
    place = tmp_path / "hf/accelerate"
    place.mkdir(parents=True)
    environ = {"HF_HOME": str(tmp_path / "hf")}
    assert find_local_default(environ) is None
    assert default_accelerate_config(environ) == ""
    (place / "default_config.json").write_text('{"distributed_type": "FSDP"}', encoding="utf-8")
    assert default_accelerate_config(environ) == '{"distributed_type": "FSDP"}'
    found = find_local_default(environ)
    assert found is not None
    assert read_accelerate_file(found).strategy == "FSDP"
    (place / "default_config.yaml").write_text(FSDP, encoding="utf-8")
    assert default_accelerate_config(environ) == FSDP
    assert default_accelerate_config({"XDG_CACHE_HOME": str(tmp_path / "none")}) == ""


def test_a_command_names_a_file_and_the_counts_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fsdp.yaml").write_text(FSDP + "num_machines: 2\n", encoding="utf-8")
    line = "accelerate launch --config_file fsdp.yaml --fsdp_offload_params true --tee 3 train.py"
    config = build_command_config((line,))
    assert config.command is not None
    assert (config.command.request.nodes, config.command.request.total) == (2, 8)
    assert config.job.accelerate_config == {
        "distributed_type": "FSDP",
        "fsdp_config": {
            "fsdp_offload_params": "true",
            "fsdp_transformer_layer_cls_to_wrap": "Block",
            "fsdp_version": 2,
        },
    }
    assert config.job.precision == "bf16"
    assert config.job.command.launcher_args == ("--tee", "3")
    with pytest.raises(BadInput, match="contradict"):
        build_command_config(("accelerate launch --config_file fsdp.yaml --num_processes 7 train.py",))


def test_a_command_without_a_file_has_the_local_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert build_command_config(("accelerate", "launch", "train.py")).job.accelerate_config is None
    (tmp_path / "accelerate").mkdir()
    (tmp_path / "accelerate/default_config.yaml").write_text(FSDP, encoding="utf-8")
    config = build_command_config(("accelerate", "launch", "train.py"))
    assert config.job.accelerate_config is not None
    assert config.job.accelerate_config["distributed_type"] == "FSDP"
    assert config.job.precision == "bf16"
    assert config.command is not None
    assert config.command.request.total is None  # the counts of a default are of the machine it was made for
    assert build_command_config(("torchrun", "train.py")).job.accelerate_config is None
