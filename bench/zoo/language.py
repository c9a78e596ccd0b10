# SPDX-License-Identifier: Apache-2.0
"""Encoders and decoders of text; decoders with the keys and values of earlier tokens as well."""

from bench.zoo.network import VOCABULARY, Input, Network, lengths, mask, tokens

_SMALL = dict(
    vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
_GROUPED = {**_SMALL, "num_key_value_heads": 2, "head_dim": 8}
_SEQUENCE = dict(
    vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=48, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    decoder_start_token_id=1,
)  # fmt: skip
_T5 = dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
_GPT2 = dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)

_TEXT = (tokens(), mask())
_STATES = Input("encoder_hidden_states", "signal", (1, "S", 32))
_BOTH = ({"L": 5, "S": 16}, {"L": 9, "S": 23})
_STEP = (tokens(), mask(length="T"), Input("position_ids", "positions", (1, "L")))
_STEPS = ({"L": 1, "P": 12, "T": 13}, {"L": 1, "P": 20, "T": 21})


def _encoder(name, model, config, **how):
    return Network(name, model, config, _TEXT, lengths(), **how)


def _decoder(name, model, config, **how):
    return Network(name, model, config, _TEXT, lengths(), "logits", **how)


def _with_cache(name, model, config, cache):
    return Network(name, model, config, _STEP, _STEPS, "logits", dynamic=("P", "T"), cache=cache)


NETWORKS = (
    _encoder("bert", "BertModel", _SMALL, dynamic=("L",)),
    _encoder("roberta", "RobertaModel", {**_SMALL, "pad_token_id": 1}, dynamic=("L",)),
    _encoder(
        "distilbert", "DistilBertModel",
        dict(vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64), dynamic=("L",),
    ),
    _encoder("albert", "AlbertModel", {**_SMALL, "embedding_size": 24}, dynamic=("L",)),
    _encoder("electra", "ElectraModel", {**_SMALL, "embedding_size": 24}, dynamic=("L",)),
    _encoder("mpnet", "MPNetModel", {**_SMALL, "pad_token_id": 1}),
    _encoder(
        "deberta-v2", "DebertaV2Model",
        {**_SMALL, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
    ),
    _encoder("modernbert", "ModernBertModel", {**_SMALL, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2}),
    _decoder("gpt2", "GPT2LMHeadModel", _GPT2, dynamic=("L",), large=dict(n_layer=4, n_head=6, n_embd=384, vocab_size=5000, L=37)),
    _decoder("gpt-neox", "GPTNeoXForCausalLM", _SMALL),
    _decoder("llama", "LlamaForCausalLM", _GROUPED, dynamic=("L",)),
    _decoder("qwen2", "Qwen2ForCausalLM", _GROUPED, dynamic=("L",)),
    _decoder("qwen3", "Qwen3ForCausalLM", _GROUPED),
    _decoder("gemma", "GemmaForCausalLM", _GROUPED),
    _decoder("gemma2", "Gemma2ForCausalLM", {**_GROUPED, "sliding_window": 8}),
    _decoder("phi", "PhiForCausalLM", _SMALL),
    _decoder("phi3", "Phi3ForCausalLM", {**_SMALL, "num_key_value_heads": 2}),
    _decoder("mistral", "MistralForCausalLM", {**_GROUPED, "sliding_window": 8}),
    _decoder("bloom", "BloomForCausalLM", dict(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4)),
    _decoder(
        "opt", "OPTForCausalLM",
        dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, ffn_dim=64, num_attention_heads=4,
             max_position_embeddings=64, word_embed_proj_dim=24, pad_token_id=0),
    ),
    _with_cache("gpt2-cache", "GPT2LMHeadModel", _GPT2, (2, 4, 8)),
    _with_cache("llama-cache", "LlamaForCausalLM", _GROUPED, (2, 2, 8)),
    _with_cache("qwen2-cache", "Qwen2ForCausalLM", _GROUPED, (2, 2, 8)),
    _with_cache("qwen3-cache", "Qwen3ForCausalLM", _GROUPED, (2, 2, 8)),
    _with_cache("gemma-cache", "GemmaForCausalLM", _GROUPED, (2, 2, 8)),
    _with_cache("phi-cache", "PhiForCausalLM", _SMALL, (2, 4, 8)),
    Network("t5-encoder", "T5EncoderModel", _T5, _TEXT, lengths(), dynamic=("L",)),
    Network(
        "t5-decoder", "T5Model", {**_T5, "use_cache": False}, (tokens(), mask(), _STATES), _BOTH, part="decoder", dynamic=("L", "S"),
    ),
    Network("bart-encoder", "BartModel", _SEQUENCE, _TEXT, lengths(), part="encoder", dynamic=("L",)),
    Network("bart-decoder", "BartModel", {**_SEQUENCE, "use_cache": False}, (tokens(), mask(), _STATES), _BOTH, part="decoder"),
    Network("marian", "MarianModel", _SEQUENCE, _TEXT, lengths(), part="encoder"),
    Network(
        "mamba", "MambaForCausalLM",
        dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8, time_step_rank=4, use_cache=False),
        (tokens(),), lengths(8, 11), "logits",
    ),
)  # fmt: skip
