# target: capability=8.0 transformers=5.1 trl=0.13
from contextlib import suppress

import transformers
from packaging import version
from transformers import TrainingArguments

for kind in ("text", "vision"):
    if version.parse(transformers.__version__) >= version.parse("4.54"):
        from transformers import AutoModelForImageTextToText as Loader
    else:
        from transformers import AutoModelForVision2Seq as Loader
with suppress(ImportError):
    from transformers import TextDataset

arguments = TrainingArguments("out", warmup_ratio=0.1, logging_dir="logs", group_by_length=True)
