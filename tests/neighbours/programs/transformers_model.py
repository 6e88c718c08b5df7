"""Hugging Face Transformers: a tiny random Llama generates some tokens."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rounds import bits, rounds

torch.manual_seed(1)
torch.set_num_threads(1)
model = LlamaForCausalLM(LlamaConfig(vocab_size=97, hidden_size=32, intermediate_size=64,
                                     num_hidden_layers=2, num_attention_heads=4,
                                     num_key_value_heads=2, max_position_embeddings=128)).eval()
for number in rounds():
    tokens = torch.arange(number, number + 8)[None]
    written = model.generate(tokens, max_new_tokens=12, do_sample=False, pad_token_id=0)
    print(number, written.tolist(), bits(model(written).logits))
