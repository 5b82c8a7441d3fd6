# target: capability=7.5 processes=2 launch=fp16 args=
"""However many libraries a script imports, its own modules are read."""

import argparse
import collections
import contextlib
import copy
import functools
import gc
import itertools
import json
import logging
import math
import os
import random
import shutil
import sys
import time
import warnings

import datasets
import numpy
import torch
import transformers
import wandb
from accelerate import Accelerator

from parts.building import build

accelerator = Accelerator()
model = build()
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in range(3):
    with accelerator.accumulate(model):
        accelerator.backward(model(batch).sum())
        optimizer.step()
