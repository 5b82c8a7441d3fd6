from transformers import AutoModel
AutoModel.from_pretrained('/data/models/llama')
