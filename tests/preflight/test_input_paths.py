"""Paths that the arguments of a launch let its ranks read."""

import pytest

from preflight.decide.input_paths import MOST, find_input_paths, is_file, path_on_host
from preflight.job import Job


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (("--data", "/data/imagenet"), {"/data/imagenet": "--data"}),
        (("--data=/data/imagenet", "--lr", "1e-4"), {"/data/imagenet": "--data"}),
        (("data.root=/data/imagenet",), {"/data/imagenet": "data.root"}),
        (("--files", "a/x.json", "b/y.jsonl"), {"a/x.json": "--files", "b/y.jsonl": "--files"}),
        (("cfg/base.yaml",), {"cfg/base.yaml": ""}),
        (("~/data", "./d", "../d"), {"~/data": "", "./d": "", "../d": ""}),
        (
            ("--resume_from_checkpoint", "/out/checkpoint-40"),
            {"/out/checkpoint-40": "--resume_from_checkpoint"},
        ),
        (("--model", "meta-llama/Llama-3.1-8B"), {}),
        (("--url", "https://example.org/a.json"), {}),
        (("--output_dir", "/out/a"), {}),
        (("--save-path=/out/a.pt",), {}),
        (("-o", "/out/a"), {}),
        (("--checkpoint_dir", "/out/c"), {}),
        (("--logging.dir", "/out/tb"), {}),
        (("--device", "/dev/nvidia0", "--scratch", "/tmp/x", "--root", "/"), {}),
        (("--glob", "/data/*.json"), {}),
    ],
)
def test_arguments_name_what_ranks_read(args: tuple[str, ...], found: dict[str, str]) -> None:
    assert find_input_paths(Job(args=args)) == found


def test_the_output_of_the_run_config_is_written_and_very_many_paths_are_not_all_looked_at() -> None:
    assert find_input_paths(Job(args=("--dir", "/d/out"), output="/d/out")) == {}
    assert len(find_input_paths(Job(args=tuple(f"/d/{number}" for number in range(3 * MOST))))) == MOST


def test_a_path_starts_where_ranks_start() -> None:
    assert path_on_host("cfg/a.yaml", "/home/ana/train") == "/home/ana/train/cfg/a.yaml"
    assert path_on_host("/d/a", "/home/ana/train") == "/d/a"
    assert path_on_host("~/d", "/home/ana/train") == "~/d"


def test_a_file_has_an_ending_of_data_or_settings() -> None:
    assert is_file("a/b.parquet")
    assert not is_file("a/b")
