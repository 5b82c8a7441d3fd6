# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from data import Pairs

accelerator = Accelerator()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Pairs(), shuffle=True))
for query, passage in loader:
    queries, passages = model(query), model(passage)
    all_passages = accelerator.gather(passages)
    all_queries = accelerator.gather(queries)
    scores = queries @ all_passages.t()
    loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
