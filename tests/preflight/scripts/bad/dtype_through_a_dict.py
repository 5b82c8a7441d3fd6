import os, logging, torch
from torch.utils.data import DataLoader
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup
logger = logging.getLogger(__name__)
CFG = dict(lr=2e-5, epochs=3, amp="fp16", half=True)
def make_model(cfg):
    kw = {}
    if cfg["half"]:
        kw["torch_dtype"] = torch.float16  # expect: P101 error
    return AutoModelForSequenceClassification.from_pretrained("bert-base-cased", **kw)
def train(cfg):
    acc = Accelerator(mixed_precision=cfg["amp"])
    set_seed(1)
    model = make_model(cfg)
    opt = torch.optim.AdamW(params=model.parameters(), lr=cfg["lr"])
    sched = get_linear_schedule_with_warmup(opt, 1, 100)
    model, opt, dl, sched = acc.prepare(model, opt, DataLoader([]), sched)
    for e in range(cfg["epochs"]):
        for step, b in enumerate(dl):
            out = model(**b)
            acc.backward(out.loss)
            opt.step(); sched.step(); opt.zero_grad()
if __name__ == "__main__":
    train(CFG)
