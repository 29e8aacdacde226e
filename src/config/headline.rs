//! A model in one line.

use super::description::{Attention, Description, LayerAttention, Mask, Mixer, ModelFamily, Role};

impl Description {
    /// The attention in one line, such as `GQA 4:1 (32 query / 8 KV heads, head_dim 128), 32 layers`,
    /// `hybrid: 12 full GQA 8:1 + 36 gated DeltaNet` or `RWKV: no attention, 24 layers`.
    pub fn headline(&self) -> String {
        let text = match self.family() {
            ModelFamily::None => "no attention: draft heads only".to_owned(),
            ModelFamily::Ssm | ModelFamily::LinearRnn => {
                format!("{}: no attention, {}", self.recurrent_names(), self.layers_text())
            }
            ModelFamily::Hybrid => self.hybrid_headline(),
            ModelFamily::Transformer => {
                let mut text = format!("{}, {}", self.heads_text(), self.layers_text());
                if self.attention_per_layer > 1 {
                    text += &format!(" with {} attention blocks each", self.attention_per_layer);
                }
                let parts = self.parts();
                if parts.len() > 1 || self.attentions().any(|layer| layer.mask != Mask::Full) {
                    text += &format!(" ({})", parts.join(", "));
                }
                text
            }
        };
        match self.role {
            Role::Decoder => text,
            Role::Encoder => format!("encoder: {text}"),
            Role::EncoderDecoder => format!("encoder-decoder: {text}"),
            Role::Draft => format!("draft: {text}"),
        }
    }

    fn layers_text(&self) -> String {
        match self.layers.len() {
            1 => "1 layer".to_owned(),
            layers => format!("{layers} layers"),
        }
    }

    fn recurrent_names(&self) -> &'static str {
        self.layers.iter().find_map(|layer| layer.recurrent).map_or("recurrent", |layer| layer.kind.name())
    }

    fn hybrid_headline(&self) -> String {
        let recurrent = self.layers.iter().filter(|layer| layer.recurrent.is_some()).count();
        let both = self.layers.iter().filter(|layer| matches!(layer.mixer(), Mixer::Both(_))).count();
        let idle = self.layers.iter().filter(|layer| layer.mixer() == Mixer::None).count();
        let sharing = self.sharing_text();
        let masks: Vec<String> =
            self.masks().iter().map(|(count, mask)| format!("{count} {}", mask_text(*mask))).collect();
        let mut text =
            format!("hybrid: {} {sharing} + {recurrent} {}", masks.join(" and "), self.recurrent_names());
        if idle > 0 {
            text += &format!(" + {idle} without a mixer");
        }
        if both > 0 {
            text += &format!(" ({both} of {} layers have both)", self.layers.len());
        }
        text
    }

    /// How many attention layers have which mask, in the order of their first appearance.
    fn masks(&self) -> Vec<(usize, Mask)> {
        let mut masks: Vec<(usize, Mask)> = Vec::new();
        for layer in self.attentions() {
            match masks.iter_mut().find(|(_, mask)| *mask == layer.mask) {
                Some((count, _)) => *count += 1,
                None => masks.push((1, layer.mask)),
            }
        }
        masks
    }

    fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> =
            self.masks().iter().map(|(count, mask)| format!("{count} {}", mask_text(*mask))).collect();
        let cross = self.layers.iter().filter(|layer| layer.cross).count();
        let idle = self.layers.iter().filter(|layer| layer.mixer() == Mixer::None).count();
        let shared = self.attentions().filter(|layer| !layer.owns_kv()).count();
        for (count, name) in
            [(cross, "cross-attention"), (idle, "without attention"), (shared, "sharing K/V")]
        {
            if count > 0 {
                parts.push(format!("{count} {name}"));
            }
        }
        parts
    }

    /// The sharing with its ratio, such as `GQA 8:1`.
    fn sharing_text(&self) -> String {
        let attention = self.attention();
        let name = match attention {
            Attention::Mha => "MHA",
            Attention::Gqa => "GQA",
            Attention::Mqa => "MQA",
            Attention::Mla => "MLA",
            Attention::Mixed => "mixed attention",
            Attention::None => "no attention",
        };
        match self.ratio() {
            Some(ratio) if attention != Attention::Mha => format!("{name} {ratio}"),
            _ => name.to_owned(),
        }
    }

    fn heads_text(&self) -> String {
        let sharing = self.sharing_text();
        let Some(first) = self.attentions().next() else { return sharing };
        if let Some(latent) = first.latent {
            return format!("{sharing} (latent {} + rope {})", latent.rank, latent.rope_dim);
        }
        let shape = |layer: &LayerAttention| (layer.query_heads, layer.kv_heads, layer.head_dim);
        if self.attentions().any(|layer| shape(layer) != shape(first)) {
            return format!("{sharing} (heads differ between layers)");
        }
        let LayerAttention { query_heads, kv_heads, head_dim, .. } = *first;
        if kv_heads == query_heads {
            format!("{sharing} ({query_heads} heads, head_dim {head_dim})")
        } else {
            format!("{sharing} ({query_heads} query / {kv_heads} KV heads, head_dim {head_dim})")
        }
    }
}

fn mask_text(mask: Mask) -> String {
    match mask {
        Mask::Full => "full".to_owned(),
        Mask::Sliding { window } => format!("sliding {window}"),
        Mask::Chunked { size } => format!("chunked {size}"),
        Mask::Compressed { window, ratio } => format!("sliding {window} with the past compressed {ratio}:1"),
    }
}
