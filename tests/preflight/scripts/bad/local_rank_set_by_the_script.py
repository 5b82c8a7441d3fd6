import os, torch
os.environ["LOCAL_RANK"] = "0"  # expect: D207 warning
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
