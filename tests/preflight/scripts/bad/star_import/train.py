from common import *
from transformers import Trainer
model = get_model()
Trainer(model=model, args=get_args()).train()
