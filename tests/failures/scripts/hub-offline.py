from transformers import AutoTokenizer
AutoTokenizer.from_pretrained('bigscience/bloom-560m')
