# SPDX-License-Identifier: Apache-2.0
"""Speech, sound and vocoders."""

from bench.zoo.network import VOCABULARY, Input, Network, mask, tokens

_WHISPER = dict(
    vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=48, num_mel_bins=20, max_source_positions=50,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False,
)  # fmt: skip
_WAV = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=[16, 24, 32],
    conv_kernel=[10, 3, 3], conv_stride=[5, 2, 2], num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    vocab_size=VOCABULARY, apply_spec_augment=False,
)  # fmt: skip
_WAVE = (Input("input_values", "signal", (1, "L")),)
_WAVES = ({"L": 1600}, {"L": 2400})

NETWORKS = (
    Network(
        "whisper-encoder", "WhisperModel", _WHISPER, (Input("input_features", "signal", (1, "num_mel_bins", "F")),),
        ({"num_mel_bins": 20, "F": 100}, {"num_mel_bins": 28, "F": 100}), part="encoder",
        large=dict(encoder_layers=4, d_model=384, encoder_attention_heads=6, encoder_ffn_dim=1536, max_source_positions=1500, num_mel_bins=80, F=3000),
    ),
    Network(
        "whisper-decoder", "WhisperModel", _WHISPER, (tokens(), mask(), Input("encoder_hidden_states", "signal", (1, "S", 32))),
        ({"L": 5, "S": 50}, {"L": 9, "S": 50}), part="decoder", dynamic=("L",),
    ),
    Network("wav2vec2", "Wav2Vec2ForCTC", _WAV, _WAVE, _WAVES, "logits", dynamic=("L",)),
    Network("hubert", "HubertModel", _WAV, _WAVE, _WAVES, dynamic=("L",)),
    Network("wavlm", "WavLMModel", _WAV, _WAVE, _WAVES),
    Network(
        "ast", "ASTModel",
        dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_mel_bins=32),
        (Input("input_values", "signal", (1, "max_length", 32)),), ({"max_length": 64}, {"max_length": 96}),
    ),
    Network(
        "speecht5-hifigan", "SpeechT5HifiGan",
        dict(model_in_dim=20, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8], resblock_kernel_sizes=[3, 7], resblock_dilation_sizes=[[1, 3], [1, 3]]),
        (Input("spectrogram", "signal", (1, "L", 20)),), ({"L": 16}, {"L": 27}), "waveform", dynamic=("L",),
    ),
    Network(
        "vits-hifigan", "own.HifiGan", dict(channels=20, first=32, rates=(4, 2), kernels=(3, 5), dilations=(1, 3)),
        (Input("spectrogram", "signal", (1, 20, "L")),), ({"L": 16}, {"L": 27}), "waveform", dynamic=("L",),
    ),
    Network(
        "encodec-decoder", "own.EncodecDecoder", dict(upsampling_ratios=[4, 2], num_filters=8, hidden_size=32, num_lstm_layers=1, codebook_size=16, codebook_dim=32),
        (Input("embeddings", "signal", (1, 32, "L")),), ({"L": 12}, {"L": 17}), "waveform",
    ),
    Network(
        "encodec-encoder", "own.EncodecEncoder", dict(upsampling_ratios=[4, 2], num_filters=8, hidden_size=32, num_lstm_layers=1, codebook_size=16, codebook_dim=32),
        (Input("waveform", "signal", (1, 1, "L")),), ({"L": 160}, {"L": 240}), "embeddings",
    ),
)  # fmt: skip
