"""The DeepSpeed config of a command, from where it is named to what preflight says of it."""

import json
from pathlib import Path

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry
from launcher.config.run_config import build_command_config
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.preflight import build_agent_request
from launcher.remote.agent import GatherResult
from preflight.decide.batch_sizes import BatchSizes
from preflight.job import DeepSpeedConfig
from tests.hardware import l40s, titan

EIGHT = '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}}'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ds.json").write_text(EIGHT)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("deepspeed train.py --deepspeed ds.json", DeepSpeedConfig("ds.json", EIGHT)),
        ("torchrun train.py --deepspeed_config=./ds.json", DeepSpeedConfig("./ds.json", EIGHT)),
        ("deepspeed train.py --deepspeed --ds_config 'ds.json'", DeepSpeedConfig("ds.json", EIGHT)),
        ("deepspeed train.py --deepspeed", None),
        ("deepspeed train.py --deepspeed other.json", None),
    ],
)
def test_the_config_is_read_where_the_script_is_told_of_it(line: str, found: DeepSpeedConfig | None) -> None:
    assert build_command_config([line]).job.deepspeed == found


def test_keys_of_an_accelerate_file_say_the_same(home: Path) -> None:
    (home / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: nvme\n"
        "  offload_optimizer_nvme_path: swap\n  offload_param_device: none\n"
    )
    job = build_command_config(["accelerate launch --config_file a.yaml train.py"]).job
    assert job.deepspeed is not None
    assert json.loads(job.deepspeed.text) == {
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "swap"}}
    }
    request = build_agent_request(HostEntry("titan", workdir="/data/x"), job)
    assert request.paths["offload"] == "/data/x/swap"
    (home / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n"
    )
    job = build_command_config(["accelerate launch --config_file a.yaml train.py"]).job
    assert job.deepspeed == DeepSpeedConfig("ds.json", EIGHT)


def test_preflight_counts_with_the_ranks_that_the_launch_would_have() -> None:
    job = build_command_config(
        ["deepspeed train.py --deepspeed ds.json"], Overrides(hosts=("titan,l40s-01",))
    ).job
    facts = {each.host: each for each in (titan(2), l40s(1))}
    result = evaluate_facts([HostEntry(name) for name in facts], GatherResult(facts, {}), job)
    by_code = {found.code: found for found in result.findings if found.code.startswith("SHARD")}
    assert sorted(by_code) == ["SHARD001", "SHARD002"]
    assert "cannot be shared by 1 (micro batch) x 3 ranks = 3" in by_code["SHARD001"].message
    assert by_code["SHARD001"].fix == "write 15 or 18, or leave it out"
    assert by_code["SHARD002"].hosts == ("titan",)
    assert result.would_use is not None
    assert result.would_use.world_size == 3


@pytest.mark.parametrize(
    ("given", "product"),
    [
        ((12, 2, 2), 12),
        ((12, 2, None), 12),
        ((14, 2, None), 12),
        ((12, None, 2), 12),
        ((12, None, None), 12),
        ((2, 2, None), 0),
        ((None, 2, 2), 12),
    ],
)
def test_batch_sizes_follow_from_each_other_as_in_deepspeed(
    given: tuple[int | None, ...], product: int
) -> None:
    content = {name: value for name, value in zip(BatchSizes.NAMES, given, strict=True) if value is not None}
    assert BatchSizes.of(content, 3).product == product
