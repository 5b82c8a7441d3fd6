"""Paths that the arguments of a launch let its ranks read."""

from dataclasses import replace
from typing import Any, cast

import pytest

from preflight.checks.paths import _input, what_the_arguments_name_is_there
from preflight.decide.input_paths import MOST, find_input_paths, resolve_host_path
from preflight.facts.host import Identity
from preflight.facts.missing import Missing
from preflight.job import Job
from tests.preflight.golden_cases import host


@pytest.mark.parametrize(
    ("args", "required", "perhaps"),
    [
        ("--data /data/imagenet", "", "/data/imagenet"),
        ("--data=/data/imagenet --lr 1e-4", "", "/data/imagenet"),
        ("data.root=/data/imagenet +data.val=/data/val", "", "/data/imagenet /data/val"),
        ("--files a/x.json b/y.jsonl", "", "a/x.json b/y.jsonl"),
        ("cfg/base.yaml", "cfg/base.yaml", ""),
        ("configs/rcnn.py load_from=./mask.pth", "configs/rcnn.py ./mask.pth", ""),
        ("~/data ./d ../d", "", "~/data ./d ../d"),
        ("--resume_from_checkpoint /out/checkpoint-40", "", "/out/checkpoint-40"),
        ("--resume_from_checkpoint latest", "", ""),
        ("--train_file train.jsonl --config run.yaml", "train.jsonl run.yaml", ""),
        # What a script joins with a directory, a library finds by itself, or Hydra looks for in its own.
        ("--data_dir /data --train_list train.txt", "", "/data train.txt"),
        ("data=coco8.yaml --weights yolov5s.pt --cfg yolov5s.yaml", "", "coco8.yaml yolov5s.pt yolov5s.yaml"),
        ("--config-path conf --config-name config.yaml", "", "config.yaml"),
        ("--dataset allenai/c4/en.json --train_file d/e/t.json", "d/e/t.json", "allenai/c4/en.json"),
        ("--repo TheBloke/Llama-2-7B/llama.bin", "", "TheBloke/Llama-2-7B/llama.bin"),
        # What ranks may write.
        ("--metrics_file metrics.json --predictions p.csv --model_path /m/new.pt", "", "/m/new.pt"),
        ("--output_dir /out/a --save-path=/out/a.pt -o /out/a --checkpoint_dir /out/c", "", ""),
        ("--output-data-dir /o --data-cache-path /c --dump_config c.yaml", "", ""),
        ("--logging.dir /tb --trainer.logger.init_args.dir=/l --trainer.default_root_dir=/l", "", ""),
        ("--log_config log.yaml", "log.yaml", ""),
        ("--num-gpus 8 OUTPUT_DIR ./output MODEL.WEIGHTS /w/a.pkl", "/w/a.pkl", ""),
        # Lists.
        ("--data a.json,/d/b.json", "a.json /d/b.json", ""),
        ('--data ["/d/a.json","/d/b.json"]', "/d/a.json /d/b.json", ""),
        ("--text a,/b --map {/a,/b}", "", ""),
        # No paths of a disk, of every start its own, or secret.
        ("--model meta-llama/Llama-3.1-8B --url https://example.org/a.json --b s3://b/a.json", "", ""),
        ("--device /dev/nvidia0 --scratch /tmp/x --dir /tmp/y --sock /var/run/s --root /", "", ""),
        ("--tokenizer /tmp/llama/tokenizer.model", "/tmp/llama/tokenizer.model", ""),
        ("--glob /data/*.json --entry models/net.py:build", "", ""),
        ("--token /x/y --password=/pass/word --api_key /k/e.txt", "", ""),
        (f"--data /{'a' * 5000} --image /9j/{'4A' * 200} --data /a\0b --list {'/a,' * 20_000}", "", ""),
    ],
)
def test_arguments_name_what_ranks_read(args: str, required: str, perhaps: str) -> None:
    found = find_input_paths(Job(args=tuple(args.split(" "))))
    assert [path for path, said in found.items() if said.required] == required.split()
    assert [path for path, said in found.items() if not said.required] == perhaps.split()


def test_a_path_is_named_with_the_option_right_before_it() -> None:
    args = ("--dist-backend", "nccl", "/data/imagenet", "--val=/v", "--", "/w", "--data", "/a", "/b")
    found = {path: said.option for path, said in find_input_paths(Job(args=args)).items()}
    assert found == {"/data/imagenet": "", "/v": "--val", "/w": "", "/a": "--data", "/b": ""}


def test_the_output_of_the_run_config_is_written_and_very_many_paths_are_not_all_looked_at() -> None:
    assert find_input_paths(Job(args=("--dir", "/d/out"), output="/d/out")) == {}
    assert len(find_input_paths(Job(args=tuple(f"/d/{number}" for number in range(3 * MOST))))) == MOST


def test_a_path_starts_where_ranks_start() -> None:
    assert resolve_host_path("cfg/a.yaml", "/home/ana/train") == "/home/ana/train/cfg/a.yaml"
    assert resolve_host_path("/d/a", "/home/ana/train") == "/d/a"
    assert resolve_host_path("~/d", "/home/ana/train") == "~/d"


def test_the_answer_of_a_path_is_not_that_of_one_which_ends_like_it() -> None:
    one = host().paths
    assert not isinstance(one, Missing)
    answers = (("workdir", "~/train"), ("input", "/x/a.json"), ("input", "~/train/a.json"))
    asked = [replace(one[0], role=cast("Any", role), path=path) for role, path in answers]
    facts = replace(host(), paths=tuple(asked))
    assert _input(facts, "a.json") is asked[2]
    assert _input(facts, "/x/a.json") is asked[1]
    assert _input(facts, "b.json") is None


@pytest.mark.parametrize(
    ("given", "resolved", "login", "fix"),
    [
        ("/d/x", "/d/x", "", "copy it into the container of box, or mount it at /d; or name the path"),
        ("/d/x/", "/d/x", "ssh box", "rsync -aR --no-implied-dirs /d/x box:/; or name the path"),
        (
            *("/d/x", "/mnt/x", "ssh -p 22 -i 'a k' root@h"),
            """rsync -e 'ssh -p 22 -i '"'"'a k'"'"'' -a /d/x root@h:/mnt/; or""",
        ),
        ("../x", "/w/x", "ssh root@::1", "rsync -a ../x 'root@[::1]':/w/; or"),
        ("./../x", "/w/x", "ssh box", "rsync -a ../x box:/w/; or"),
        ("./x", "/w/p/x", "ssh box", "run --sync sends it with the local tree (where .gitignore leaves"),
    ],
)
@pytest.mark.parametrize("sync", ["none", "before", "done"])
def test_a_path_is_brought_by_the_way_that_leads_to_the_host(
    given: str, resolved: str, login: str, fix: str, sync: str
) -> None:
    facts = replace(host(), host="box")
    assert isinstance(facts.identity, Identity)
    assert isinstance(facts.paths, tuple)
    lacking = replace(facts.paths[0], role="input", path=given, resolved=resolved, exists=False)
    facts = replace(facts, identity=replace(facts.identity, container="docker"), paths=(lacking,))
    job = Job(args=("--data", given), local_inputs=(given,), logins={"box": login} if login else {})
    job = replace(job, receives_tree=sync == "before", tree_is_sent=sync == "done")
    problems = list(what_the_arguments_name_is_there({"box": facts}, job))
    said = [] if sync == "done" or (sync == "before" and given == "./x") else [True]
    assert [problem.fix.startswith(fix) for problem in problems] == said, problems
