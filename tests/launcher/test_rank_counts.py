"""CPU ranks for each host by itself: words of a run config become hosts."""

from pathlib import Path

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.inventory import resolve_rank_counts
from launcher.config.inventory_reader import load_inventory
from launcher.config.run_config import load_run_config
from launcher.errors import BadInput, ConfigError
from preflight.decide.gpu_assignment import RanksRefused, map_ranks
from preflight.job import Job
from tests.hardware import cpu_host

HOSTS = "hosts: {'l40s-[01-03]': {}, titan: {}}\ngroups: {ada: ['l40s-[01-03]']}\n"


def settled(tmp_path: Path, counts: dict[str, int]) -> Job:
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    job = Job(script="t.py", gpus="none", processes_per_host=counts)
    return resolve_rank_counts(job, load_inventory(tmp_path / "hosts.yaml"))


def test_ranges_groups_and_names_give_each_host_its_number(tmp_path: Path) -> None:
    job = settled(tmp_path, {"l40s-[01-02]": 2, "titan": 3})
    assert job.processes_per_host == {"l40s-01": 2, "l40s-02": 2, "titan": 3}
    assert settled(tmp_path, {"@ada": 4}).cpu_ranks("l40s-03") == 4
    assert job.cpu_ranks("l40s-03") == 0


def test_two_numbers_for_one_host_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="l40s-02 gets 2 ranks, 3 by l40s-02"):
        settled(tmp_path, {"l40s-[01-02]": 2, "l40s-02": 3})


def test_a_word_that_names_nothing_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="@nobody"):
        settled(tmp_path, {"@nobody": 2})


def test_a_host_without_a_number_gets_no_ranks_silently() -> None:
    job = Job(script="t.py", gpus="none", processes_per_host={"other": 2})
    with pytest.raises(RanksRefused, match="processes_per_host does not say how many"):
        map_ranks(cpu_host("here"), job)
    assert len(map_ranks(cpu_host("other"), job).slots) == 2


def test_a_config_takes_a_number_or_a_mapping(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("script: a.py\ngpus: none\nprocesses_per_host: {'l40s-[01-02]': 2, titan: 1}\n")
    assert load_run_config(str(config)).job.processes_per_host == {"l40s-[01-02]": 2, "titan": 1}
    alone = load_run_config(str(config), Overrides(key_values=("processes_per_host=3",)))
    assert alone.job.processes_per_host == 3
    for bad in ("{titan: 0}", "{titan: many}", "[1, 2]", "0", "two", "{'-x': 1}"):
        config.write_text(f"script: a.py\ngpus: none\nprocesses_per_host: {bad}\n")
        with pytest.raises(ConfigError, match="processes_per_host"):
            load_run_config(str(config))
