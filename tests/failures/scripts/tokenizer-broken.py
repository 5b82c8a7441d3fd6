from transformers import AutoTokenizer
AutoTokenizer.from_pretrained('model')
