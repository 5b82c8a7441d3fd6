import sys, os
sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
from src.models.build import build_model
from transformers import Trainer, TrainingArguments
Trainer(model=build_model(), args=TrainingArguments("o", fp16=True)).train()
