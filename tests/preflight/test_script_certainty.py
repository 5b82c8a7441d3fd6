"""How sure lint is: an error runs by default in every rank, anything less certain says on what it depends."""

import ast
from textwrap import dedent

import pytest

from preflight.script import bounds
from preflight.script.lint import LintFinding, lint, lint_for
from preflight.script.rules.registry import Level
from preflight.script.target import RankTarget

PARALLEL = """
    import argparse, os, torch
    def wrap(model, distributed=False):
        if distributed:
            return torch.nn.parallel.DistributedDataParallel(model)
        return torch.nn.DataParallel(model)
    def build(several):
        if several:
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
        else:
            model = torch.nn.DataParallel(torch.nn.Linear(1, 1))
        return model
"""
OPTION = f"""{PARALLEL}
    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--cluster", action="store_true")
        args = parser.parse_args()
        build(args.cluster)
"""
FIELD = f"""{PARALLEL}
    from dataclasses import dataclass
    @dataclass
    class Options:
        cluster: bool = False
    if __name__ == "__main__":
        build(Options().cluster)
"""
UNCALLED = """
    import torch
    def main():
        print("trains elsewhere")
    def demo():
        torch.zeros(1).to("cuda:0")
    if __name__ == "__main__":
        main()
"""
NAMED = """
    import torch, sys
    def main(mode):
        if mode == "probe":
            probe()
    def probe():
        torch.zeros(1).to("cuda:0")
    if __name__ == "__main__":
        main("train")
"""
UNKNOWN_BRANCH = """
    import os, torch, settings
    if settings.single:
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
"""
BESIDE_RANKS = """
    import torch, settings
    model = torch.nn.Linear(1, 1)
    if settings.several:
        model = torch.nn.parallel.DistributedDataParallel(model.cuda())
    else:
        model = torch.nn.DataParallel(model)
"""
BOTH_BACKWARDS = """
    import torch
    def train(model, opt, batches, amp, scaler):
        for batch in batches:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(batch)
            if not amp:
                loss.backward()
            else:
                scaler.scale(loss).backward()
"""
RANK_VISIBLE = """
    import os, torch
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    model = torch.nn.Linear(1, 1).to(device)
"""
SPAWNED = """
    import torch
    import torch.multiprocessing as mp
    def run(rank, world_size):
        device = torch.device("cuda", rank)
        torch.nn.Linear(1, 1).to(device)
    if __name__ == "__main__":
        gpus = torch.cuda.device_count()
        if gpus == 8:
            mp.spawn(run, args=(gpus,), nprocs=gpus)
        else:
            run(0, 1)
"""
VISIBLE = 'import os, torch\nos.environ["CUDA_VISIBLE_DEVICES"] = "{}"\n'


def _found(
    text: str, *, processes: int | None = 4, args: tuple[str, ...] | None = None
) -> list[tuple[str, Level, str]]:
    target = RankTarget(capability=(8, 0), processes=processes, args=args)
    found = lint_for(dedent(text), "train.py", [target], certain=True).findings
    return [_plain(item) for item in found if item.part_of is None and not item.code.startswith("V")]


def _plain(item: LintFinding) -> tuple[str, Level, str]:
    return item.code, item.level, item.message


@pytest.mark.parametrize("text", [OPTION, FIELD], ids=["argparse", "dataclass"])
def test_the_branch_of_a_default_is_doubted_where_the_option_opens_that_of_several_ranks(text: str) -> None:
    [(code, level, message)] = _found(text)
    assert (code, level) == ("D206", Level.WARNING)
    assert message.endswith("without --cluster")


def test_known_arguments_leave_no_doubt() -> None:
    [(code, level, _)] = _found(OPTION, args=())
    assert (code, level) == ("D206", Level.ERROR)
    assert _found(OPTION, args=("--cluster",)) == []


def test_what_nothing_names_is_not_judged_beside_a_main_part() -> None:
    assert _found(UNCALLED) == []
    alone = dedent(UNCALLED).partition("if __name__")[0]
    assert [code for code, _, _ in _found(alone)] == ["D201"]


def test_what_only_an_untaken_branch_calls_is_one_level_lower() -> None:
    [(code, level, message)] = _found(NAMED)
    assert (code, level) == ("D201", Level.WARNING)
    assert message.endswith("if it is called")
    assert _found(NAMED.replace("probe", "demo")) == []  # by its name it trains nothing


def test_placement_under_an_unknown_condition_is_no_error() -> None:
    [(code, level, message)] = _found(UNKNOWN_BRANCH)
    assert (code, level) == ("D203", Level.WARNING)
    assert "where this branch is taken" in message


def test_a_rank_that_sees_only_its_own_gpu_may_call_it_0() -> None:
    assert _found(RANK_VISIBLE) == []
    [(code, level, _)] = _found(RANK_VISIBLE.replace('os.environ["LOCAL_RANK"]', '"1"'))[:1]
    assert (code, level) == ("D203", Level.ERROR)


def test_beside_the_branch_of_several_ranks_is_that_of_one() -> None:
    assert [(code, level) for code, level, _ in _found(BESIDE_RANKS)] == [("D206", Level.INFO)]


@pytest.mark.parametrize("value", ["", "-1"])
def test_no_visible_gpu_is_a_run_on_the_cpu(value: str) -> None:
    assert _found(VISIBLE.format(value)) == []


def test_a_plain_backward_beside_a_scaled_one_is_that_of_another_run() -> None:
    assert _found(BOTH_BACKWARDS) == []
    plain = BOTH_BACKWARDS.replace("scaler.scale(loss).backward()", "pass")
    assert [(code, level) for code, level, _ in _found(plain)] == [("P114", Level.WARNING)]


@pytest.mark.parametrize(
    ("value", "level"), [("0", Level.ERROR), ("0,1", Level.ERROR), ("0,1,2,3", Level.WARNING)]
)
def test_enough_visible_gpus_for_the_ranks_are_no_error(value: str, level: Level) -> None:
    assert [(code, found) for code, found, _ in _found(VISIBLE.format(value))] == [("D203", level)]


def test_a_script_that_starts_its_ranks_is_one_process_unless_the_launch_says_otherwise() -> None:
    for sizes in ((None, None), (1, None)):
        targets = [RankTarget((8, 0), size) for size in sizes]
        found = lint(dedent(SPAWNED), "train.py", targets).findings
        assert not [item.code for item in found if item.code[0] == "D"]
    plain = dedent(SPAWNED).replace("mp.spawn", "print")
    assert {item.code for item in lint(plain, "train.py").findings if item.code[0] == "D"} == {"D201"}


def test_what_was_not_read_to_its_end_proves_no_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'import torch\ndevice = torch.device("cuda:0")\nprint(device)\n'
    assert _found(text)[0][:2] == ("D201", Level.ERROR)
    long = text + "print(1 + 1)\n" * 50
    monkeypatch.setattr(bounds, "MAX_STEPS", 100)
    [(code, level, message)] = _found(long)
    assert (code, level) == ("D201", Level.INFO)
    assert "as far as the script was read" in message


def test_loops_in_loops_are_not_read_twice_each(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = "    " * 12
    heads = ["    " * depth + f"for x{depth} in load():\n" for depth in range(12)]
    body = "".join(heads) + inner
    setup = "import torch\nmodel = torch.nn.Linear(1, 1)\nopt = torch.optim.AdamW(model.parameters())\n"
    monkeypatch.setattr(bounds, "MAX_STEPS", 3000)
    found = _found(f"{setup}{body}opt.step()\n{inner}model.half()\n", processes=1)
    assert ("P111", Level.ERROR) in [(code, level) for code, level, _ in found]


def test_the_readings_of_a_script_share_its_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, texts = ast.parse, []

    def parse_and_note(text: str, filename: str) -> ast.Module:
        texts.append(text)
        return parse(text, filename)

    monkeypatch.setattr(ast, "parse", parse_and_note)
    option = dedent(OPTION).replace("build(args.cluster)", "if args.cluster:\n        build(True)")
    _found(option)
    assert texts == [option]


@pytest.mark.parametrize(
    ("eps", "level"), [("1e-8", Level.ERROR), ("1e-6", Level.WARNING), ("1e-4", Level.WARNING)]
)
def test_steps_in_half_precision_are_an_error_where_adam_divides_by_zero(eps: str, level: Level) -> None:
    script = f"""
    import torch
    model = torch.nn.Linear(4, 4).half().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps={eps})
    for i in range(10):
        model(torch.zeros(1, 4)).sum().backward()
        optimizer.step()
    """
    found = [each.level for each in lint(dedent(script), "train.py").findings if each.code == "P102"]
    assert found[0] is level


_MODES = """
import argparse, os, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, DistributedSampler
def train(rank, net, loader):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(9):
        for batch in loader:
            net(batch.cuda()).sum().backward()
            opt.step()
            opt.zero_grad()
    torch.save(net.state_dict(), "net.pt")
def work(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[rank])
    train(rank, net, DataLoader(range(64), sampler=DistributedSampler(range(64))))
parser = argparse.ArgumentParser()
DECLARED
args = parser.parse_args()
CHOSEN
"""
_OF_WORDS = """
if args.mode == "plain":
    train(0, torch.nn.Linear(4, 4).cuda(), DataLoader(range(64), shuffle=True))
elif args.mode == "export":
    print("nothing to train")
elif args.mode == "ddp":
    mp.spawn(work, args=(args.size,), nprocs=args.size)
"""
_OF_NUMBERS = """
if torch.cuda.device_count() > 1 and args.mode == 1:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    loader = DataLoader(range(64), sampler=DistributedSampler(range(64)))
else:
    net, loader = torch.nn.Linear(4, 4).cuda(), DataLoader(range(64), shuffle=True)
train(0, net, loader)
"""


@pytest.mark.parametrize(
    ("declared", "chosen", "flag"),
    [
        ('parser.add_argument("--mode", default="plain")', _OF_WORDS, "--mode=ddp"),
        ('parser.add_argument("--mode", type=int, default=0)', _OF_NUMBERS, "--mode=1"),
    ],
)
def test_the_value_that_starts_ranks_is_tried(declared: str, chosen: str, flag: str) -> None:
    size = 'parser.add_argument("--size", type=int, default=2)'
    script = _MODES.replace("DECLARED", f"{declared}\n{size}").replace("CHOSEN", chosen)
    found = [each for each in lint(script, "train.py").findings if each.code in ("R403", "R405")]
    assert {(each.code, each.level) for each in found} == {("R403", Level.WARNING), ("R405", Level.WARNING)}
    assert all(each.message.endswith(f", with {flag}") for each in found)


def test_a_value_that_starts_no_ranks_is_not_tried() -> None:
    declared = 'parser.add_argument("--mode", default="plain")'
    script = _MODES.replace("DECLARED", declared).replace(
        "CHOSEN", _OF_WORDS.split('elif args.mode == "ddp"', maxsplit=1)[0]
    )
    assert not [each for each in lint(script, "train.py").findings if "--mode" in each.message]
