# target: capability=8.0 processes=4
import torch
from accelerate import Accelerator
from transformers import AutoModelForSequenceClassification

accelerator = Accelerator()
model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", torch_dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(torch.ones(64, 8, dtype=torch.long), batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(batch).logits.sum())
    optimizer.step()
    optimizer.zero_grad()
if accelerator.is_main_process:
    model.eval()
    with torch.no_grad():
        print(accelerator.unwrap_model(model)(batch).logits)
