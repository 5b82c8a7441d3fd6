# In[1]:
!pip install transformers  # expect: P100 error
%matplotlib inline  # expect: P100 error
import torch
from transformers import AutoModel, Trainer, TrainingArguments

model = AutoModel.from_pretrained("m", torch_dtype=torch.float16)  # expect: P101 error
Trainer(model, TrainingArguments("o", fp16=True)).train()
