from helpers.loading import load_model, training_arguments
from transformers import Trainer

Trainer(load_model("m"), training_arguments()).train()
