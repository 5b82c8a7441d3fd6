# target: capability=8.0 transformers=5.24
from transformers import AdamW  # expect: V304 error

print(AdamW)
