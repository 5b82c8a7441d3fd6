# target: transformers=4.50
from transformers import AutoModel

model = AutoModel.from_pretrained("m", dtype="float32")  # expect: V302 error
