//! What a model class assumes when its configuration does not say, one line per class.
//!
//! The numbers are the class defaults of transformers 5.24.0 and, for code published beside the
//! weights, those of that code. Only data: how a key, a default and a rule combine is in `layers`
//! and `attention`. A class that is not listed is read by its keys alone.

use super::description::RecurrentKind::{
    self, GatedDelta, KimiDelta, Lightning, LinearAttention, Mamba, Mamba2, Retention, RgLru, Rwkv,
    ShortConv, Xlstm,
};

/// One model class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// `model_type` of the language model.
    pub name: &'static str,
    /// What kind of network it is.
    pub network: Network,
    /// Decoder layers, 0 where the class has no default.
    pub layers: usize,
    /// Query heads, 0 where the class has no default.
    pub heads: usize,
    /// Model width, 0 where the class has no default.
    pub width: usize,
    /// KV heads where the key is absent; 0 = as many as query heads.
    pub kv_heads: usize,
    /// Head size where the key is absent; 0 = width / query heads.
    pub head_dim: usize,
    /// Whether and how the class reads `sliding_window`.
    pub window: Window,
    /// Which layers are what when no key says.
    pub plan: Plan,
    /// What stands in the recurrent layers.
    pub recurrent: Option<RecurrentKind>,
    /// MLA sizes: latent, rotary, rest of the query head, value head.
    pub latent: Option<[usize; 4]>,
    /// Width of the sparse indexer's keys, 0 = the class has none.
    pub indexer: usize,
    /// A rule of the class that beats the common order of keys.
    pub rule: Rule,
}

/// What kind of network a class is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// A causal decoder, with softmax attention in some layer unless the plan says otherwise.
    Decoder,
    /// Bidirectional: no cache.
    Encoder,
    /// Encoder and decoder with cross-attention.
    EncoderDecoder,
    /// No softmax attention anywhere, whatever `num_heads` may mean.
    Recurrent,
    /// A draft head without any mixer.
    HeadsOnly,
}

/// Whether and how a class reads `sliding_window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// The class has no such key: a value in the file was copied from elsewhere.
    NotRead,
    /// Read; none when absent.
    Optional,
    /// Read; this many tokens when absent.
    Default(usize),
    /// Read only if `use_sliding_window` is true, for layers from `max_window_layers` (this default) on.
    Flagged(usize),
    /// Read unless `use_sliding_window` is false, for layers from `max_window_layers` (this default) on.
    Late(usize),
}

/// Which layers are what when no key says. Indices count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// All layers alike.
    Uniform,
    /// Every n-th layer is full, the others and an incomplete tail slide.
    FullLast(usize),
    /// Layer i is full when i % n == 0, the others slide.
    FullFirst(usize),
    /// As `FullLast`, and the first layer is full too.
    FullFirstAndLast(usize),
    /// Every n-th layer is full, the others are recurrent.
    LinearThenFull(usize),
    /// Layer i is full when i % n == 0, the others are recurrent.
    FullThenLinear(usize),
    /// As `FullThenLinear`, but the first layer is recurrent.
    LinearFirst(usize),
    /// The last of each group of n is full, and so is an incomplete tail.
    Groups(usize),
    /// Layer i is full when i % period == offset, the others are recurrent.
    Period(usize, usize),
    /// Two recurrent layers, one with both mixers, then both where i % period == offset.
    Zamba(usize, usize),
    /// These layers have both mixers, the others are recurrent.
    BothAt(&'static [usize]),
    /// Two recurrent layers, then one with a window, repeated.
    Griffin,
    /// Every n-th layer is full, the others are chunked.
    Chunked(usize),
    /// These layers are cross-attention.
    CrossAt(&'static [usize]),
    /// DeepSeek V4: two layers compressed 128 times, then 128 and 4 in turn.
    Compressed,
    /// Self-decoder of recurrent and windowed layers, then layers that share one full cache.
    Yoco(usize),
    /// All layers are recurrent unless indices name others.
    AllRecurrent,
    /// Every layer has both mixers.
    AllBoth,
    /// The class has no default: the file must say.
    Stated,
}

/// A rule of a class that beats the common order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// None.
    Common,
    /// `new_decoder_architecture` (with this default), then `multi_query`, then heads.
    Falcon(bool),
    /// `multi_query`, true by default.
    BigCode,
    /// `attn_config` says, or this many; 0 = as many as query heads.
    AttentionConfig(usize),
    /// `multi_query_attention` and its group number.
    ChatGlm,
    /// Query heads divided by `n_shared_head`, rounded up.
    SharedHeads,
    /// Query heads = KV heads x experts per token (this default).
    HeadsPerExpert(usize),
    /// Attention reads twice the width.
    DoubleWidth,
    /// Two attention blocks per layer, counted by `num_layers`.
    TwoBlocks,
    /// Full layers have `global_head_dim` and their own KV heads; the last layer is full.
    GlobalHeads,
    /// `attention_other_setting` describes the sliding layers; lists include the MTP layers.
    OtherSetting,
    /// V heads have a width of their own, `v_head_dim`.
    ValueWidth,
    /// The list of blocks counts the layers, whatever `num_hidden_layers` says.
    BlocksCount,
    /// A window of null also switches the pattern off, and K and V are one tensor.
    SharedTensor,
    /// The last layers reuse K/V: this many by default.
    SharedLayers(usize),
    /// Neighbouring layers share K/V when `use_cla` is true.
    CrossLayer,
}

const fn class(name: &'static str, layers: usize, heads: usize, width: usize) -> Family {
    Family {
        name,
        network: Network::Decoder,
        layers,
        heads,
        width,
        kv_heads: 0,
        head_dim: 0,
        window: Window::NotRead,
        plan: Plan::Uniform,
        recurrent: None,
        latent: None,
        indexer: 0,
        rule: Rule::Common,
    }
}

/// A class that is known only by its rules: the file must give every size.
const fn named(name: &'static str) -> Family {
    class(name, 0, 0, 0)
}

const fn encoder(name: &'static str, layers: usize, heads: usize, width: usize) -> Family {
    Family { network: Network::Encoder, ..class(name, layers, heads, width) }
}

const fn seq2seq(name: &'static str, layers: usize, heads: usize, width: usize) -> Family {
    Family { network: Network::EncoderDecoder, ..class(name, layers, heads, width) }
}

const fn recurrent(name: &'static str, layers: usize, kind: RecurrentKind) -> Family {
    Family {
        network: Network::Recurrent,
        recurrent: Some(kind),
        plan: Plan::AllRecurrent,
        ..class(name, layers, 0, 0)
    }
}

const fn heads_only(name: &'static str) -> Family {
    Family { network: Network::HeadsOnly, ..named(name) }
}

impl Family {
    const fn kv(mut self, kv_heads: usize) -> Self {
        self.kv_heads = kv_heads;
        self
    }

    const fn dim(mut self, head_dim: usize) -> Self {
        self.head_dim = head_dim;
        self
    }

    const fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    const fn slides(self, window: usize, plan: Plan) -> Self {
        self.window(Window::Default(window)).plan(plan)
    }

    const fn plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }

    const fn with(mut self, kind: RecurrentKind, plan: Plan) -> Self {
        self.recurrent = Some(kind);
        self.plan = plan;
        self
    }

    const fn mla(mut self, latent: usize, rope: usize, nope: usize, value: usize) -> Self {
        self.latent = Some([latent, rope, nope, value]);
        self
    }

    const fn indexed(mut self, width: usize) -> Self {
        self.indexer = width;
        self
    }

    const fn rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }
}

use Plan::{
    AllBoth, AllRecurrent, BothAt, Chunked, Compressed, CrossAt, FullFirst, FullFirstAndLast, FullLast,
    FullThenLinear, Griffin, Groups, LinearFirst, LinearThenFull, Period, Stated, Yoco, Zamba,
};
use Window::{Flagged, Late, Optional};

const ZAMBA2_HYBRIDS: &[usize] = &[6, 12, 18, 24, 30, 36, 42, 47, 51];
const MLLAMA_CROSS: &[usize] = &[3, 8, 13, 18, 23, 28, 33, 38];

/// Every class with a default or a rule of its own.
#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    // Full attention in every layer, no window key.
    class("llama", 32, 32, 4096),
    class("aria_text", 32, 32, 4096),
    class("apertus", 32, 32, 4096),
    class("arcee", 32, 32, 2560),
    class("biogpt", 24, 16, 1024),
    class("bitnet", 30, 20, 2560).kv(5),
    class("bloom", 2, 8, 64),
    class("chameleon", 32, 32, 4096).kv(32),
    class("codegen", 28, 16, 4096),
    class("cohere", 40, 64, 8192),
    class("csm", 16, 32, 2048).kv(8),
    class("ctrl", 48, 16, 1280),
    class("diffllama", 16, 32, 2048),
    class("emu3_text_model", 32, 32, 4096).kv(8),
    class("ernie4_5", 18, 16, 1024).kv(2).dim(128),
    class("ernie4_5_moe", 28, 20, 2560).kv(4),
    class("ernie4_5_vl_moe_text", 28, 20, 2560).kv(4),
    class("flex_olmo", 32, 32, 4096),
    class("gemma", 28, 16, 3072).kv(16).dim(256),
    class("glm", 40, 32, 4096).kv(2).dim(128),
    class("glm4", 40, 32, 4096).kv(2).dim(128),
    class("glm4_moe", 46, 96, 4096).kv(8),
    class("glm4v_moe_text", 46, 96, 4096).kv(8),
    class("glm4v_text", 40, 32, 4096).kv(2),
    class("glm_image_text", 40, 32, 4096).kv(2),
    class("glm_ocr_text", 16, 16, 1024).kv(8),
    class("gpt2", 12, 12, 768),
    class("gpt_neox", 44, 64, 6144),
    class("gpt_neox_japanese", 32, 32, 2560),
    class("gptj", 28, 16, 4096),
    class("granite", 32, 32, 4096),
    class("granitemoe", 32, 32, 4096),
    class("granitemoeshared", 32, 32, 4096),
    class("helium", 24, 20, 2560).kv(20).dim(128),
    class("hunyuan_v1_dense", 32, 32, 4096).rule(Rule::CrossLayer),
    class("hunyuan_v1_moe", 32, 32, 4096).rule(Rule::CrossLayer),
    class("hunyuan_vl_text", 32, 32, 4096).rule(Rule::CrossLayer),
    class("hyperclovax", 32, 32, 4096),
    class("hy_v3", 80, 64, 4096).kv(8).dim(128),
    class("internlm3", 48, 32, 4096).kv(2).dim(128),
    class("jais2", 32, 26, 3328),
    class("minimax_m2", 62, 48, 3072).kv(8).dim(128),
    class("minimax_m3_vl_text", 60, 64, 6144).kv(4).dim(128).indexed(128),
    class("molmo2_text", 36, 32, 4096).kv(8).dim(128),
    class("nanochat", 12, 6, 768),
    class("nemotron", 32, 48, 6144),
    class("olmo", 32, 32, 4096),
    class("olmo2", 32, 32, 4096),
    class("olmoe", 16, 16, 2048),
    class("opt", 12, 12, 768),
    class("paddleocr_vl_text", 18, 16, 1024).kv(2).dim(128),
    class("persimmon", 36, 64, 4096),
    class("phi", 24, 32, 2048),
    class("qwen3_omni_moe_text", 28, 28, 2048).kv(4).window(Flagged(28)),
    class("qwen3_vl_text", 32, 32, 4096).kv(32).dim(128),
    class("qwen3_vl_moe_text", 24, 16, 2048).kv(16),
    class("seed_oss", 64, 80, 4096).kv(8).dim(128),
    class("solar_open", 48, 64, 4096).kv(8).dim(128),
    class("stablelm", 32, 32, 2560).kv(32),
    class("xglm", 24, 16, 1024),
    named("baichuan"),
    named("deepseek"),
    named("internlm"),
    named("internlm2"),
    named("minicpm"),
    named("openelm"),
    named("phi-msft"),
    named("qwen"),
    named("exaone"),
    named("nemotron-nas"),
    named("deci"),

    // KV heads by a rule of their own.
    class("falcon", 32, 71, 4544).rule(Rule::Falcon(false)),
    named("refinedweb").rule(Rule::Falcon(true)),
    named("refinedwebmodel").rule(Rule::Falcon(false)),
    class("gpt_bigcode", 12, 12, 768).rule(Rule::BigCode),
    class("mpt", 24, 16, 2048).rule(Rule::AttentionConfig(0)),
    class("dbrx", 24, 16, 2048).rule(Rule::AttentionConfig(1)),
    named("chatglm").rule(Rule::ChatGlm),
    named("plamo").rule(Rule::SharedHeads),
    class("jetmoe", 12, 32, 2048).kv(16).dim(128).rule(Rule::HeadsPerExpert(2)),
    named("hunyuan").rule(Rule::CrossLayer),

    // One window key for all layers.
    class("mistral", 32, 32, 4096).kv(8).slides(4096, Plan::Uniform),
    class("voxtral_realtime_text", 32, 32, 4096).kv(8).dim(128).slides(4096, Plan::Uniform),
    class("ministral", 32, 32, 4096).kv(8).slides(4096, Plan::Uniform),
    class("moshi", 32, 32, 4096).slides(3000, Plan::Uniform),
    class("ministral3", 34, 32, 4096).kv(8).dim(128).window(Optional),
    class("mixtral", 32, 32, 4096).kv(8).window(Optional),
    class("phi3", 32, 32, 3072).window(Optional),
    class("phi4_multimodal", 32, 32, 3072).kv(8).window(Optional),
    class("phimoe", 32, 32, 4096).kv(8).window(Optional),
    class("starcoder2", 30, 24, 3072).kv(2).window(Optional),
    class("doge", 32, 8, 1024).window(Optional),

    // A window behind a flag.
    class("qwen2", 32, 32, 4096).kv(32).window(Flagged(28)),
    class("qwen2_moe", 24, 16, 2048).kv(16).window(Flagged(28)),
    class("qwen2_vl_text", 80, 64, 8192).kv(8).window(Flagged(80)),
    class("qwen2_5_vl_text", 80, 64, 8192).kv(8).window(Flagged(80)),
    class("qwen2_5_omni_text", 28, 28, 3584).kv(4).window(Flagged(28)),
    class("qwen3", 32, 32, 4096).kv(32).dim(128).window(Flagged(28)),
    class("qwen3_moe", 24, 32, 2048).kv(4).window(Flagged(0)),
    class("smollm3", 36, 16, 2048).kv(4).window(Flagged(0)),
    class("dots1", 62, 32, 4608).kv(32).window(Late(62)),

    // Windowed and full layers in turn.
    class("afmoe", 32, 16, 2048).dim(128).slides(1024, FullLast(4)),
    class("cohere2", 40, 64, 8192).slides(4096, FullLast(4)),
    class("cohere2_moe", 40, 64, 8192).dim(128).slides(4096, FullLast(4)),
    class("cwm", 64, 48, 6144).kv(8).dim(128).slides(8192, FullFirst(4)),
    class("exaone4", 32, 32, 4096).kv(32).slides(4096, FullLast(4)),
    class("exaone_moe", 32, 32, 4096).kv(32).slides(4096, FullLast(4)),
    class("gemma2", 26, 8, 2304).kv(4).dim(256).slides(4096, FullLast(2)),
    class("vaultgemma", 26, 8, 2304).kv(4).dim(256).slides(4096, FullLast(2)),
    class("gemma3_text", 26, 8, 2304).kv(4).dim(256).slides(4096, FullLast(6)),
    class("gemma3n_text", 35, 8, 2048).kv(2).dim(256).slides(512, FullLast(5)).rule(Rule::SharedLayers(15)),
    class("gemma4_text", 30, 8, 2304).kv(4).dim(256).slides(512, FullLast(6)).rule(Rule::GlobalHeads),
    class("gemma4_unified_text", 30, 8, 2304).kv(4).dim(256).slides(1024, FullLast(6)).rule(Rule::GlobalHeads),
    class("gpt_neo", 24, 16, 2048).slides(256, FullFirst(2)),
    class("gpt_oss", 36, 64, 2880).kv(8).dim(64).slides(128, FullLast(2)),
    class("granite_swa", 24, 20, 2560).kv(4).slides(128, FullFirst(4)),
    class("granitemoe_swa", 32, 32, 4096).slides(128, FullFirst(4)),
    class("mellum", 28, 32, 2304).kv(4).dim(128),
    class("mimo_v2_flash", 48, 64, 4096).kv(4).dim(192).slides(129, FullFirstAndLast(6)).rule(Rule::ValueWidth),
    named("mimo_v2").window(Optional).plan(Stated).rule(Rule::ValueWidth),
    class("modernbert-decoder", 22, 12, 768).slides(128, FullFirst(3)),
    class("olmo3", 32, 32, 4096).slides(4096, FullLast(4)),
    class("llama4_text", 48, 40, 5120).kv(8).dim(128).plan(Chunked(4)),
    class("step3p5", 45, 64, 4096).kv(8).dim(128).window(Optional).rule(Rule::OtherSetting),
    class("deepseek_v4", 43, 64, 4096).kv(1).dim(512).indexed(128).slides(128, Compressed).rule(Rule::SharedTensor),
    class("mllama_text_model", 40, 32, 4096).kv(8).plan(CrossAt(MLLAMA_CROSS)),

    // Latent attention.
    class("deepseek_v2", 32, 32, 4096).mla(512, 64, 128, 128),
    class("deepseek_v3", 61, 128, 7168).mla(512, 64, 128, 128),
    class("deepseek_v32", 61, 128, 7168).mla(512, 64, 128, 128).indexed(128),
    class("kimi_k2", 61, 64, 7168).mla(512, 64, 128, 128),
    class("glm4_moe_lite", 47, 20, 2048).mla(512, 64, 192, 256),
    class("glm_moe_dsa", 78, 64, 6144).mla(512, 64, 192, 256).indexed(128),
    class("longcat_flash", 28, 64, 6144).mla(512, 64, 128, 128).rule(Rule::TwoBlocks),
    class("minicpm3", 62, 40, 2560).mla(256, 32, 64, 64),
    class("mistral4", 36, 32, 4096).mla(256, 64, 64, 128),
    class("youtu", 32, 16, 2048).mla(512, 64, 128, 128),
    class("axk1", 61, 64, 7168).mla(512, 64, 128, 128),

    // Softmax attention in some layers, another mixer in the others.
    class("bailing_hybrid", 42, 32, 2560).mla(512, 64, 128, 128).with(Lightning, Groups(6)),
    named("bailing_moe_linear").with(Lightning, Groups(4)),
    class("bamba", 32, 32, 4096).kv(8).with(Mamba2, AllRecurrent),
    class("falcon_h1", 32, 32, 4096).kv(8).with(Mamba2, AllBoth),
    class("granitemoehybrid", 32, 32, 4096).with(Mamba2, AllRecurrent),
    named("hymba").window(Optional).with(Mamba, AllBoth).rule(Rule::ValueWidth),
    class("jamba", 32, 32, 4096).kv(8).with(Mamba, Period(8, 4)),
    class("kimi_linear", 27, 32, 2304).mla(512, 64, 128, 128).with(KimiDelta, LinearFirst(4)),
    class("lfm2", 32, 32, 2560).kv(8).with(ShortConv, Plan::Uniform),
    class("lfm2_moe", 32, 32, 2048).kv(8).with(ShortConv, Stated),
    class("minimax", 32, 32, 4096).kv(8).window(Optional).with(Lightning, FullThenLinear(2)),
    named("minimax_text_01").with(Lightning, Stated),
    class("nemotron_h", 0, 32, 4096).kv(8).dim(128).window(Optional).with(Mamba2, Stated).rule(Rule::BlocksCount),
    class("olmo_hybrid", 32, 30, 3840).with(GatedDelta, LinearThenFull(4)),
    named("phi4flash").window(Optional).with(Mamba, Yoco(2)),
    named("plamo2").window(Optional).with(Mamba2, Stated),
    class("qwen3_next", 48, 16, 2048).kv(2).dim(256).with(GatedDelta, LinearThenFull(4)),
    class("qwen3_5_text", 32, 16, 4096).kv(4).dim(256).with(GatedDelta, LinearThenFull(4)),
    class("qwen3_5_moe_text", 40, 16, 2048).kv(2).dim(256).with(GatedDelta, LinearThenFull(4)),
    class("recurrent_gemma", 26, 10, 2560).slides(2048, Griffin).with(RgLru, Griffin),
    class("zamba", 76, 16, 3712).kv(16).with(Mamba, Zamba(6, 4)).rule(Rule::DoubleWidth),
    class("zamba2", 54, 32, 2560).with(Mamba2, BothAt(ZAMBA2_HYBRIDS)).rule(Rule::DoubleWidth),

    // No softmax attention.
    recurrent("mamba", 32, Mamba),
    recurrent("mamba2", 64, Mamba2),
    recurrent("falcon_mamba", 32, Mamba),
    recurrent("mamba_ssm", 64, Mamba),
    recurrent("rwkv", 32, Rwkv),
    recurrent("rwkv5", 0, Rwkv),
    recurrent("rwkv6", 0, Rwkv),
    recurrent("rwkv7", 0, Rwkv),
    recurrent("xlstm", 32, Xlstm),
    recurrent("retnet", 0, Retention),
    recurrent("gla", 0, LinearAttention),
    recurrent("gsa", 0, LinearAttention),
    recurrent("linear_attn", 0, LinearAttention),
    recurrent("delta_net", 0, LinearAttention),
    recurrent("gated_deltanet", 0, GatedDelta),
    recurrent("gated_deltaproduct", 0, GatedDelta),
    recurrent("kda", 0, KimiDelta),
    recurrent("hgrn", 0, LinearAttention),
    recurrent("hgrn2", 0, LinearAttention),
    recurrent("lightnet", 0, LinearAttention),
    heads_only("medusa"),
    heads_only("mlp_speculator"),

    // Bidirectional.
    encoder("albert", 12, 64, 4096),
    encoder("bert", 12, 12, 768),
    encoder("camembert", 12, 12, 768),
    encoder("deberta", 12, 12, 768),
    encoder("deberta-v2", 24, 24, 1536),
    encoder("distilbert", 6, 12, 768),
    encoder("electra", 12, 4, 256),
    encoder("eurobert", 12, 12, 768),
    encoder("modernbert", 22, 12, 768).slides(128, FullFirst(3)),
    encoder("mpnet", 12, 12, 768),
    encoder("nomic_bert", 0, 0, 0),
    encoder("roberta", 12, 12, 768),
    encoder("xlm-roberta", 12, 12, 768),
    encoder("xlm-roberta-xl", 36, 32, 2560),

    // Encoder and decoder.
    seq2seq("t5", 6, 8, 512).dim(64),
    seq2seq("mt5", 8, 6, 512).dim(64),
    seq2seq("umt5", 8, 6, 512).dim(64),
    seq2seq("longt5", 6, 8, 512).dim(64),
    seq2seq("switch_transformers", 12, 12, 768).dim(64),
    seq2seq("bart", 12, 16, 1024),
    seq2seq("mbart", 12, 16, 1024),
    seq2seq("pegasus", 12, 16, 1024),
    seq2seq("whisper", 4, 6, 384),
    seq2seq("m2m_100", 12, 16, 1024),
    seq2seq("marian", 12, 16, 1024),
    seq2seq("led", 12, 16, 1024),
    seq2seq("blenderbot", 24, 32, 2560),
    seq2seq("blenderbot-small", 8, 16, 512),
    seq2seq("speech_to_text", 6, 4, 256),
];

/// Other names of a class: wrappers around it, legacy spellings, and networks that are the same.
#[rustfmt::skip]
const ALIASES: &[(&str, &str)] = &[
    ("aria", "aria_text"), ("audioflamingo3", "qwen2"), ("aya_vision", "cohere2"), ("blip-2", "opt"),
    ("cohere2_vision", "cohere2"), ("deepseek_vl", "llama"), ("deepseek_vl_hybrid", "llama"),
    ("deepseek_vl_v2", "deepseek_v2"), ("emu3", "emu3_text_model"), ("ernie4_5_vl_moe", "ernie4_5_vl_moe_text"),
    ("exaone4_5", "exaone4"), ("fuyu", "persimmon"), ("gemma3", "gemma3_text"), ("gemma3n", "gemma3n_text"),
    ("gemma4", "gemma4_text"), ("gemma4_unified", "gemma4_unified_text"), ("glm46v", "glm4v_text"),
    ("glm4v", "glm4v_text"), ("glm4v_moe", "glm4v_moe_text"), ("glm_image", "glm_image_text"),
    ("glm_ocr", "glm_ocr_text"), ("got_ocr2", "qwen2"), ("granite_speech", "granite"),
    ("hunyuan_vl", "hunyuan_vl_text"), ("idefics2", "mistral"), ("idefics3", "llama"), ("instructblip", "opt"),
    ("internvl", "qwen2"), ("janus", "llama"), ("kimi_k25", "kimi_k2"), ("kimi_vl", "deepseek_v3"),
    ("lfm2_vl", "lfm2"), ("lfm2-vl", "lfm2"), ("lighton_ocr", "qwen3"), ("llama4", "llama4_text"), ("llava", "llama"),
    ("llava_next", "llama"), ("llava_next_video", "llama"), ("llava_onevision", "qwen2"),
    ("minimax_m3_vl", "minimax_m3_vl_text"), ("minimax_m3", "minimax_m3_vl_text"), ("minimax_m2_5", "minimax_m2"),
    ("mistral3", "mistral"), ("mllama", "mllama_text_model"), ("molmo2", "molmo2_text"),
    ("ovis2", "qwen2"), ("paddleocr_vl", "paddleocr_vl_text"), ("paligemma", "gemma"), ("perception_lm", "llama"),
    ("pixtral", "mistral"), ("qwen2_5_omni", "qwen2_5_omni_text"), ("qwen2_5_omni_thinker", "qwen2_5_omni_text"),
    ("qwen2_5_vl", "qwen2_5_vl_text"), ("qwen2_audio", "qwen2"), ("qwen2_vl", "qwen2_vl_text"),
    ("qwen3_5", "qwen3_5_text"), ("qwen3_5_moe", "qwen3_5_moe_text"), ("qwen3_omni_moe", "qwen3_omni_moe_text"),
    ("qwen3_omni_moe_thinker", "qwen3_omni_moe_text"), ("qwen3_vl", "qwen3_vl_text"),
    ("qwen3_vl_moe", "qwen3_vl_moe_text"), ("smolvlm", "llama"), ("step3p7", "step3p5"), ("step3p7_text", "step3p5"),
    ("video_llava", "llama"), ("vipllava", "llama"), ("voxtral", "llama"),
    ("voxtral_realtime", "voxtral_realtime_text"),
    ("rw", "falcon"), ("decilm", "nemotron-nas"), ("gptbigcode", "gpt_bigcode"), ("stablelm_epoch", "stablelm"),
    ("yi", "llama"), ("mimo", "qwen2"), ("phi3small", "phi3"), ("phi3_v", "phi3"), ("phi4mm", "phi4_multimodal"),
    ("phi4_mm", "phi4_multimodal"), ("mimo_v2_pro", "mimo_v2"), ("mimov2", "mimo_v2"), ("step3_5", "step3p5"),
    ("bailing_moe_v2_5", "bailing_hybrid"), ("bailing_moe_linear_v2", "bailing_moe_linear"),
    ("longcat_flash_ngram", "longcat_flash"), ("kimi_k3", "kimi_linear"), ("hunyuan_moe", "hunyuan_v1_moe"),
    ("minimax_m1", "minimax_text_01"), ("nemotron_nas", "nemotron-nas"), ("tele_flm", "llama"),
    ("rwkv4", "rwkv"), ("rwkv5_2", "rwkv5"), ("rwkv6_hf", "rwkv6"), ("rwkv7_hf", "rwkv7"), ("rwkv_hybrid", "rwkv7"),
    ("mllama_text", "mllama_text_model"), ("xlm_roberta", "xlm-roberta"), ("deberta_v2", "deberta-v2"),
    ("glm4_moe_mtp", "glm4_moe"), ("mlp_speculator_model", "mlp_speculator"), ("mlpspeculatorpretrained", "mlp_speculator"),
];

/// A name without case, dashes and underscores, so that `Qwen3Moe` finds `qwen3_moe`.
fn squeezed(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

impl Family {
    /// The class called `name`, directly or by another name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        let exact = |wanted: &str| FAMILIES.iter().find(|family| family.name == wanted);
        if let Some(family) = exact(name) {
            return Some(family);
        }
        let wanted = squeezed(name);
        let alias = ALIASES.iter().find(|(alias, _)| squeezed(alias) == wanted);
        match alias {
            Some((_, family)) => exact(family),
            None => FAMILIES.iter().find(|family| squeezed(family.name) == wanted),
        }
    }

    /// The class an architecture string such as `Qwen3MoeForCausalLM` belongs to.
    pub(super) fn of_architecture(architecture: &str) -> Option<&'static Self> {
        const ENDINGS: &[&str] = &[
            "ForCausalLMEagle3",
            "ForCausalLM",
            "ForConditionalGeneration",
            "ForMaskedLM",
            "ForSequenceClassification",
            "ForTokenClassification",
            "LMHeadModel",
            "ChatModel",
            "TextModel",
            "EncoderModel",
            "Model",
        ];
        let bare =
            ENDINGS.iter().find_map(|ending| architecture.strip_suffix(ending)).unwrap_or(architecture);
        Self::find(bare).or_else(|| Self::find(architecture))
    }

    /// A class nothing is known about: read by its keys alone.
    pub(super) const UNKNOWN: &'static Self = &named("").window(Optional);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_aliases_lead_somewhere() {
        for (index, family) in FAMILIES.iter().enumerate() {
            assert!(FAMILIES[..index].iter().all(|other| other.name != family.name), "{}", family.name);
        }
        for (index, (alias, family)) in ALIASES.iter().enumerate() {
            assert!(FAMILIES.iter().any(|known| known.name == *family), "{alias} -> {family}");
            assert!(FAMILIES.iter().all(|known| known.name != *alias), "{alias} is a class");
            assert!(ALIASES[..index].iter().all(|other| other.0 != *alias), "{alias} twice");
        }
    }

    #[test]
    fn architectures_find_their_class() {
        for (architecture, name) in [
            ("LlamaForCausalLM", "llama"),
            ("Qwen3MoeForCausalLM", "qwen3_moe"),
            ("GPT2LMHeadModel", "gpt2"),
            ("GPTBigCodeForCausalLM", "gpt_bigcode"),
            ("GptOssForCausalLM", "gpt_oss"),
            ("DeciLMForCausalLM", "nemotron-nas"),
            ("T5EncoderModel", "t5"),
            ("RWForCausalLM", "falcon"),
            ("DeepseekV3ForCausalLM", "deepseek_v3"),
        ] {
            assert_eq!(
                Family::of_architecture(architecture).map(|family| family.name),
                Some(name),
                "{architecture}"
            );
        }
        assert!(Family::of_architecture("SomethingNewForCausalLM").is_none());
    }
}
