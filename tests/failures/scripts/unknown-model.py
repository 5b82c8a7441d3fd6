from transformers import AutoModel
AutoModel.from_pretrained('model')
