import inspect
from transformers import Trainer, AutoTokenizer
tok = AutoTokenizer.from_pretrained("x")
kw = {"processing_class": tok} if "processing_class" in inspect.signature(Trainer.__init__).parameters else {"tokenizer": tok}
Trainer(model=None, **kw).train()
