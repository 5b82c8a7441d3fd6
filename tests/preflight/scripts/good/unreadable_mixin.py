from somebody import TrainerMixin
from transformers import Trainer


class MixedTrainer(TrainerMixin, Trainer):
    pass


MixedTrainer(model=None, tokenizer=None).train()
