"""A finding vanishes when its fault is repaired, as its `fix` says, and nothing else is said instead."""

import re

from preflight.script.lint import lint_for
from preflight.script.rules.all_rules import list_rule_codes
from preflight.script.rules.registry import Level
from tests.preflight.script_cases import HERE, read, targets_of

_LOCAL = 'int(os.environ["LOCAL_RANK"])'

FIXES: dict[str, tuple[str, str, str]] = {
    "R414": (
        "scheduler_prepared_by_epochs",
        "model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)",
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
    ),
    "R415": (
        "exchange_decided_after_the_forward",
        "x, y = next(loader)",
        "model.require_backward_grad_sync = part == parts - 1; x, y = next(loader)",
    ),
    "R417": (
        "loader_divided_twice",
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
        "model, optimizer = accelerator.prepare(model, optimizer)",
    ),
    "R418": ("layer_without_a_use", "# x = x + self.skip(x)", "x = x + self.skip(x)"),
    "R419": ("name_of_rank_0_alone", "if step % 100 == 0:", "if step % 100 == 0 and rank == 0:"),
    "R420": ("frozen_weights_flattened", "use_orig_params=False", "use_orig_params=True"),
    "R421": (
        "loss_of_gathered_values",
        "    return torch.cat(parts)",
        "    parts[rank] = features\n    return torch.cat(parts)",
    ),
    "R422": (
        "best_weights_read_at_once",
        "    state = torch.load(args.out",
        "    dist.barrier()\n    state = torch.load(args.out",
    ),
    "R423": (
        "samples_of_a_metric_gathered_twice",
        "accelerator.gather((",
        "accelerator.gather_for_metrics((",
    ),
    "R424": ("weights_read_by_rank_0_alone", "if rank == 0 and os.path", "if os.path"),
    "R425": ("words_numbered_from_a_set", "enumerate(set(words))", "enumerate(sorted(set(words)))"),
    "D201": (
        "dev_set_device",
        "import torch\ntorch.cuda.set_device(0)",
        f"import os, torch\ntorch.cuda.set_device({_LOCAL})",
    ),
    "D202": ("early_cuda", "nn.Linear(1, 1).cuda()", "nn.Linear(1, 1)"),
    "D203": ("dev_environ_update", "CUDA_VISIBLE_DEVICES", "HF_HOME"),
    "D204": ("dev_hardcoded_map", "model.parallelize(device_map)", "pass"),
    "D205": (
        "nolocal_fn",
        'init_process_group("nccl")',
        f'init_process_group("nccl"); torch.cuda.set_device({_LOCAL})',
    ),
    "D206": ("data_parallel", "nn.DataParallel(nn.Linear(2, 2))", "nn.Linear(2, 2)"),
    "D207": ("local_rank_set_by_the_script", 'os.environ["LOCAL_RANK"] = "0"', "pass"),
    "R431": ("static_graph_in_turns", "task = step % 2", "task = 1"),
    "R430": ("callback_of_rank_0_alone", "if trainer.is_world_process_zero():", "if True:"),
    "P100": ("exported_notebook", "!pip install transformers\n%matplotlib inline\n", ""),
    "P101": ("p101_trl_init", '"float16"', '"float32"'),
    "P102": ("p102_bf16trainer", "torch.float16", "torch.float32"),
    "P103": ("p103", '"auto"', '"float32"'),
    "P104": ("p104_trainer_cfg", ', bias="all"', ""),
    "P105": ("p105_after", "model = model.half()", "pass"),
    "P106": ("p106_trainer", "torch.bfloat16", "torch.float32"),
    "P107": ("trl_qlora_fp16", "fp16=True, bf16=False", "bf16=True"),
    "P108": ("p108_lit", ".half()", ""),
    "P109": ("trl_default_bf16", '"o"', '"o", bf16=False, fp16=True'),
    "P110": ("p106_layer", ", dtype=torch.bfloat16", ""),
    "P111": ("half_for_evaluation", "    m.half()", "    m = __import__('copy').deepcopy(m).half()"),
    "P112": ("p112_data", "p.data = p.data.half()", "print(p.dtype)"),
    "P113": ("p113_ema", ".half()", ""),
    "P114": ("p114", "torch.float16", "torch.bfloat16"),
    "P115": ("p115_backward", "scaler.scale(loss)", "loss"),
    "P116": ("p116_accel", "torch.nn.utils.clip_grad_norm_", "acc.clip_grad_norm_"),
    "P117": ("full_eval_first", "trainer.evaluate()\n", ""),
    "P118": ("autocast_conflict_trainer", "fp16=True", "bf16=True"),
    "P119": ("scaler_that_never_scales", "loss.backward()", "scaler.scale(loss).backward()"),
    "P120": ("precision_by_own_gpu", '"bf16" if new else "fp16"', '"fp16"'),
    "P121": (
        "support_counts_emulation",
        "is_bf16_supported()",
        "is_bf16_supported(including_emulation=False)",
    ),
    "P122": ("autocast_conflict", '"bf16"', "None"),
    "P124": ("p124_bare", "loss.backward()", "accelerator.backward(loss)"),
    "P125": ("reentrant_adapters", "True)", 'True, gradient_checkpointing_kwargs={"use_reentrant": False})'),
    "P126": ("fp16_where_there_is_a_gpu", "torch.cuda.is_available()", "True"),
    "P127": ("switches_both_on", "bf16=True", "bf16=False"),
    "P130": ("flash_attention", "flash_attention_2", "sdpa"),
    "P131": ("support_counts_emulation", "is_bf16_supported()", "get_device_capability() >= (8, 0)"),
    "P132": ("bf16_on_cpu", "bf16=True", "bf16=True, use_cpu=True"),
    "P134": (
        "unscaled_in_each_turn",
        "    scaler.unscale_(optimizer)\n    if not last:\n        return\n",
        "    if not last:\n        return\n    scaler.unscale_(optimizer)\n",
    ),
    "P135": (
        "gradients_dropped_before_the_step",
        "loss.backward()\n    optimizer.zero_grad()",
        "loss.backward()",
    ),
    "P136": ("gradients_never_dropped", "optimizer.step()", "optimizer.step(); optimizer.zero_grad()"),
    "P137": (
        "prepared_in_another_order",
        "model, loader, optimizer = accelerator.prepare(model, optimizer, loader)\naccelerator",
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\ncritic = accelerator",
    ),
    "P133": ("fire_commands_through_a_float16_base", "torch.float16 if", "torch.float32 if"),
    "P128": (
        "scaler_without_update",
        "self.optimizer.zero_grad()",
        "self.scaler.update(); self.optimizer.zero_grad()",
    ),
    "P129": ("scaled_and_stepped_plainly", "optimizer.step()", "scaler.step(optimizer); scaler.update()"),
    "R401": (
        "loader_never_prepared",
        "model, optimizer = accelerator.prepare(model, optimizer)",
        "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
    ),
    "R402": ("shuffle_beside_a_sampler", "shuffle=True, ", ""),
    "R403": (
        "same_order_in_every_epoch",
        "    again.set_epoch(0)",
        "    again.set_epoch(epoch)\n    sampler.set_epoch(epoch)",
    ),
    "R404": ("barrier_of_rank_0", "    dist.barrier()", "dist.barrier()"),
    "R405": (
        "file_of_every_rank",
        "torch.save(accelerator",
        "if accelerator.is_main_process: torch.save(accelerator",
    ),
    "R406": (
        "ranks_that_train_apart",
        "torch.nn.Linear(4, 4).cuda()",
        "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())",
    ),
    "R407": (
        "optimizer_before_fully_shard",
        "second = torch.optim.AdamW(other.parameters())\nfully_shard(other)",
        "fully_shard(other)\nsecond = torch.optim.AdamW(other.parameters())",
    ),
    "R408": ("marked_ready_twice", "find_unused_parameters=True", "find_unused_parameters=False"),
    "R409": ("plain_scaler_of_shards", 'torch.amp.GradScaler("cuda")', "ShardedGradScaler()"),
    "R410": (
        "data_fetched_and_divided_by_every_rank",
        "dist.init_process_group(",
        "torch.manual_seed(1); dist.init_process_group(",
    ),
    "R411": (
        "list_of_one_tensor",
        "[torch.zeros_like(one)] * dist.get_world_size()",
        "[torch.zeros_like(one) for _ in range(dist.get_world_size())]",
    ),
    "R412": (
        "group_made_by_accelerate_and_again",
        "dist.init_process_group(",
        "dist.is_initialized() or dist.init_process_group(",
    ),
    "R413": ("local_rank_in_a_group", "rank=local_rank, world_size=world", ""),
    "C504": ("model_saved_whole", 'torch.load("m.pt")', 'torch.load("m.pt", weights_only=False)'),
    "V306": ("batches_that_deepspeed_refuses", '"train_batch_size": 100', '"train_batch_size": 96'),
    "P149": (
        "evaluation_that_is_never_left",
        "        sampler.set_epoch(epoch)",
        "        sampler.set_epoch(epoch)\n        model.train()",
    ),
    "V307": ("checkpoints_between_evaluations", "save_steps=1000", "save_steps=900"),
    "C501": ("save_of_a_wrapped_model", "model.save_pretrained(", "model.module.save_pretrained("),
    "C502": ("weights_saved_with_module", "model.state_dict()", "model.module.state_dict()"),
    "C503": ("checkpoint_read_without_a_map", '"last.pt")\n', '"last.pt", map_location="cpu")\n'),
    "C505": (
        "rates_that_start_anew",
        '    first = last["epoch"]',
        '    first = last["epoch"]\n    scheduler.load_state_dict(last["scheduler"])',
    ),
    "C506": ("batches_skipped_in_each_epoch", "    loader = accelerator.skip", "    rest = accelerator.skip"),
    "D211": ("ranks_started_while_imported", "\nmain()\n", '\nif __name__ == "__main__":\n    main()\n'),
    "P147": ("schedule_from_a_step_of_no_run", "last_epoch=start)", "last_epoch=-1)"),
    "P148": ("scores_masked_beyond_float16", "-1e", "-1e-"),
    "D208": ("cuda_in_a_dataset", ".float().cuda()", ".float()"),
    "D209": ("batch_moved_nowhere", "    x.to(device)\n    y.to", "    x = x.to(device)\n    y = y.to"),
    "D210": ("sum_on_the_cpu_for_nccl", "torch.tensor(total)", 'torch.tensor(total, device="cuda")'),
    "P138": (
        "fabric_that_prepares_nothing",
        "model.train()",
        "model, optimizer = fabric.setup(model, optimizer)",
    ),
    "P139": ("losses_added_with_graphs", "total_loss += loss", "total_loss += loss.item()"),
    "P140": ("state_carried_with_its_graph", "    opt.step()", "    opt.step()\n    h = h.detach()"),
    "P141": ("loss_of_a_detached_forward", ".detach()", ""),
    "P142": ("optimizer_of_the_teacher", "SGD(teacher", "SGD(student"),
    "P143": ("bce_loss_in_autocast", "BCELoss()", "BCEWithLogitsLoss()"),
    "P144": ("scaler_of_bf16", "torch.bfloat16", "torch.float16"),
    "V305": ("precision_that_lightning_refuses", '"fp16"', '"16-mixed"'),
    "P145": ("half_batch_for_a_float32_model", "x.cuda().half()", "x.cuda()"),
    "P146": ("loss_divided_by_accelerate_too", "out.sum() / args.accumulate", "out.sum()"),
    "V301": ("nocuda", "no_cuda=False, ", ""),
    "V303": ("context_of_a_device", "torch.autocast(device)", "torch.autocast(device.type)"),
    "V304": ("adamw_of_transformers", "from transformers import AdamW", "from torch.optim import AdamW"),
    "V302": ("old_keywords", 'dtype="float32"', 'torch_dtype="float32"'),
}
"""Of each rule a script, what is wrong in it, and what is right."""


def _codes(text: str, source: str, name: str) -> set[str]:
    targets, certain = targets_of(source)
    path = str(HERE / "bad" / f"{name}.py")
    return {
        f"{item.code} {item.level.value}"
        for item in lint_for(text, path, targets, certain=certain, find=read).findings
    }


def _has(found: set[str], code: str) -> bool:
    return any(item.startswith(code) for item in found)


def test_a_finding_vanishes_with_its_fault() -> None:
    wrong = []
    for code, (name, fault, repair) in FIXES.items():
        source = re.sub(r"  # expect.*", "", (HERE / "bad" / f"{name}.py").read_text(encoding="utf-8"))
        before = _codes(source, source, name)
        after = _codes(source.replace(fault, repair), source, name)
        more = {item for item in after - before if not item.endswith(Level.INFO.value)}
        if not _has(before, code) or _has(after, code) or more:
            wrong.append((code, name, before, after))
    assert wrong == []


def test_each_rule_has_a_repair() -> None:
    assert set(FIXES) == set(list_rule_codes()) - {
        "P123"
    }  # both switches off is a note about what that means
