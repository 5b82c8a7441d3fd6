import torch
torch.save({"w": torch.randn(4)}, "checkpoint.pt")
import zipfile
inside = zipfile.ZipFile("checkpoint.pt")
with zipfile.ZipFile("changed.pt", "w", zipfile.ZIP_STORED) as changed:
    for name in inside.namelist():
        changed.writestr(name, inside.read(name).replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"))
import os
os.replace("changed.pt", "checkpoint.pt")
