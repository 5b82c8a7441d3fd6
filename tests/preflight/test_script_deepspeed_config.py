"""DeepSpeed configs that scripts hold themselves."""

import json

import pytest

from preflight.script.deepspeed_config import find_script_config

IMPORTS = """
import argparse
import os
import deepspeed
import torch
from transformers import TrainingArguments
from transformers.integrations import HfDeepSpeedConfig
"""
GIVEN = "deepspeed.initialize(config=c)"


def said(text: str) -> object:
    found = find_script_config(IMPORTS + text, "train.py", ("--stage", "3"))
    if found is None:
        return None
    return found.file or (found.config is not None and json.loads(found.config.text))


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("deepspeed.initialize(model=m, config={'train_batch_size': 8})", {"train_batch_size": 8}),
        (
            "N = 4\nc = {'train_batch_size': 2 * N}\ndeepspeed.initialize(config_params=c)",
            {"train_batch_size": 8},
        ),
        (
            "c = {}\nc['bf16'] = {'enabled': True}\ndeepspeed.initialize(config=c)",
            {"bf16": {"enabled": True}},
        ),
        (
            "TrainingArguments('out', deepspeed={'zero_optimization': {'stage': 3}})",
            {"zero_optimization": {"stage": 3}},
        ),
        ("HfDeepSpeedConfig({'steps_per_print': -1})", {"steps_per_print": -1}),
        ("deepspeed.initialize(config='ds.json')", "ds.json"),
        ("c = {'train_batch_size': a.b, 'train_micro_batch_size_per_gpu': 2, 'z': 1}\n" + GIVEN, {"z": 1}),
        (
            "c = {'fp16': {'enabled': args.fp16, 'loss_scale': 0}}\ndeepspeed.initialize(config=c)",
            {"fp16": {"loss_scale": 0}},
        ),
        ("c = {'a': {'b': 1}, 'd': 2}\nc['a']['b'] = x\ndeepspeed.initialize(config=c)", {"a": {}, "d": 2}),
        ("c = {'a': 1}\nc[k] = 2\ndeepspeed.initialize(config=c)", None),
        ("c = {'a': 1}\nc.update(more)\ndeepspeed.initialize(config=c)", None),
        ("c = {'a': 1}\nc = {'a': 2}\ndeepspeed.initialize(config=c)", {"a": 2}),
        ("c = {**base, 'a': 2}\ndeepspeed.initialize(config=c)", None),
        ("def f(c):\n    deepspeed.initialize(config=c)\nc = {'a': 1}", None),
        (
            "c = {'a': [1, 2], 'b': (3, x), 'd': -x, 'e': -2.5, 'f': not 1, 'g': [{'h': x, 'i': 1}]}\n"
            + GIVEN,
            {"a": [1, 2], "e": -2.5, "f": False},
        ),
        ("c = {'a': 2 * 3, 'b': 2 * 3.0, 'd': 2 + 3, 'e': 2 * x}\n" + GIVEN, {"a": 6, "b": 6.0, "d": 5}),
        ("c = c\n" + GIVEN, None),
        ("b = 7\nc = {'a': b}\n" + GIVEN, {"a": 7}),
        ("b = 7\nb += 1\nc = {'a': b, 'd': 1}\n" + GIVEN, {"a": 8, "d": 1}),
        ("b, c = 7, {'a': 1}\n" + GIVEN, {"a": 1}),
        ("c = {'a': 1, 'b': 2, 'd': {}}\nif x:\n    c['a'], c['e'] = 2, 3\n" + GIVEN, {"b": 2, "d": {}}),
        ("c = {'a': 1}\nc = 'ds.json' if x else c\n" + GIVEN, None),
        ("c = {7: 1}\n" + GIVEN, None),
        ("c = {'a': b'7'}\n" + GIVEN, None),
        (
            "p = argparse.ArgumentParser()\np.add_argument('--stage', type=int)\n"
            "c = {'zero_optimization': {'stage': p.parse_args().stage}}\n" + GIVEN,
            {"zero_optimization": {"stage": 3}},
        ),
        ("def f(c):\n    deepspeed.initialize(config=c)\nf({'a': 1})", {"a": 1}),
        ("c = {'a': {'b': os.environ['WORLD_SIZE'], 'd': 1}}\n" + GIVEN, {"a": {"d": 1}}),
        ("c = {'a': 4 * torch.distributed.get_world_size(), 'd': 1}\n" + GIVEN, {"d": 1}),
        ("c = {'bf16': {'enabled': torch.cuda.is_bf16_supported()}, 'd': 1}\n" + GIVEN, {"bf16": {}, "d": 1}),
        ("deepspeed.initialize(args=args)", None),
        ("wandb.initialize(config={'lr': 1})", None),
        ("wandb.init(config={'lr': 1})", None),
        ("deepspeed.initialize(config={'a': 1}", None),
    ],
)
def test_what_a_script_says_for_certain(text: str, config: object) -> None:
    assert said(text) == config


def test_a_config_that_holds_itself_is_read_to_an_end() -> None:
    found = said(f"c = {{'a': {{'b': c}}, 'd': 1}}\n{GIVEN}")
    assert isinstance(found, dict)
    assert found["d"] == 1


def test_a_config_is_named_by_its_place() -> None:
    found = find_script_config("import deepspeed\ndeepspeed.initialize(config={'a': 1})\n", "pkg/train.py")
    assert found is not None
    assert found.config is not None
    assert found.config.source == "the DeepSpeed config of pkg/train.py:2"
