import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from transformers import AutoModel, AutoTokenizer
tok = AutoTokenizer.from_pretrained("bert-base-uncased"); model = AutoModel.from_pretrained("bert-base-uncased").cuda()
def collate(items): return tok([t for t, _ in items], return_tensors="pt", padding=True), torch.tensor([y for _, y in items])
with torch.no_grad():
    for enc, labels in DataLoader([("a", 0), ("b", 1)], batch_size=2, collate_fn=collate):
        enc.to("cuda")
        print(model(**enc).last_hidden_state.shape, labels)
