import argparse, torch
torch.save({"args": argparse.Namespace(lr=1)}, "checkpoint.pt")
