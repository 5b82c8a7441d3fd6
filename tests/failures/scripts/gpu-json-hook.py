import json, sys, time, traceback, torch
def emit(level, msg, **k): print(json.dumps({"ts": round(time.time(), 1), "level": level, "msg": msg, **k}), flush=True)
def hook(t, v, tb): emit("critical", "unhandled exception", exc_type=t.__name__, exc=str(v), stack="".join(traceback.format_tb(tb)))
sys.excepthook = hook
emit("info", "start", gpus=torch.cuda.device_count())
for step in range(4): emit("info", "train", step=step, loss=1 / (step + 1))
big = torch.empty(300, 2 ** 30, device="cuda")
emit("info", "end")
