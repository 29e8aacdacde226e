//! Constant state of recurrent layers, in elements per sequence.
//!
//! Approximate on purpose: runtimes keep one convolution column more or less and often widen the
//! state to fp32. A file that does not say enough gives `None`, never an error, since no decision
//! rests on these figures.

use super::description::RecurrentKind;
use super::evidence::Reader;

/// Elements of one layer's state, where the file says enough.
pub(super) fn state_elements(
    reader: &mut Reader<'_>,
    kind: RecurrentKind,
    hidden: Option<usize>,
) -> Option<u64> {
    let hidden = u64::try_from(hidden?).ok()?;
    let mut read = |keys: &[&str]| keys.iter().find_map(|key| reader.look(key)?.as_u64());
    match kind {
        RecurrentKind::Mamba => {
            let inner = inner_width(&mut read, hidden)?;
            let state = read(&["state_size", "mamba_d_state", "d_state"])?;
            let kernel = read(&["conv_kernel", "mamba_d_conv", "d_conv"]).unwrap_or(4);
            inner.checked_mul(state)?.checked_add(inner.checked_mul(kernel.checked_sub(1)?)?)
        }
        RecurrentKind::Mamba2 => {
            let heads = read(&["mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads"])?;
            let head_dim = read(&["mamba_head_dim", "mamba_d_head", "mamba_headdim", "head_dim"])?;
            let state = read(&["ssm_state_size", "state_size", "mamba_d_state"])?;
            let groups = read(&["n_groups", "mamba_n_groups", "mamba_ngroups"]).unwrap_or(1);
            let kernel = read(&["conv_kernel", "mamba_d_conv"]).unwrap_or(4);
            let inner = heads.checked_mul(head_dim)?;
            let columns = inner.checked_add(groups.checked_mul(state)?.checked_mul(2)?)?;
            inner.checked_mul(state)?.checked_add(columns.checked_mul(kernel.checked_sub(1)?)?)
        }
        RecurrentKind::GatedDelta | RecurrentKind::KimiDelta => {
            let key_heads = read(&["linear_num_key_heads", "linear_attn_config.num_heads"])?;
            let value_heads = read(&["linear_num_value_heads", "linear_attn_config.num_heads"])?;
            let key_dim = read(&["linear_key_head_dim", "linear_attn_config.head_dim"])?;
            let value_dim = read(&["linear_value_head_dim", "linear_attn_config.head_dim"])?;
            let kernel_keys = ["linear_conv_kernel_dim", "linear_attn_config.short_conv_kernel_size"];
            let kernel = read(&kernel_keys).unwrap_or(4);
            let state = value_heads.checked_mul(key_dim)?.checked_mul(value_dim)?;
            let keys = key_heads.checked_mul(key_dim)?.checked_mul(2)?;
            let columns = keys.checked_add(value_heads.checked_mul(value_dim)?)?;
            state.checked_add(columns.checked_mul(kernel.checked_sub(1)?)?)
        }
        RecurrentKind::ShortConv => {
            let kernel = read(&["conv_L_cache"])?;
            hidden.checked_mul(kernel.checked_sub(1)?)
        }
        RecurrentKind::Rwkv => {
            let size = read(&["head_size", "head_dim"])?;
            let heads = hidden.checked_div(size)?;
            heads.checked_mul(size.checked_mul(size)?)?.checked_add(hidden.checked_mul(2)?)
        }
        RecurrentKind::RgLru => {
            let width = read(&["lru_width"]).unwrap_or(hidden);
            let kernel = read(&["conv1d_width"]).unwrap_or(4);
            width.checked_mul(kernel)
        }
        RecurrentKind::Lightning
        | RecurrentKind::LinearAttention
        | RecurrentKind::Xlstm
        | RecurrentKind::Retention => None,
    }
}

fn inner_width(read: &mut impl FnMut(&[&str]) -> Option<u64>, hidden: u64) -> Option<u64> {
    // Hybrids spend `intermediate_size` on their MLP; only pure models keep the inner width there.
    if let Some(expand) = read(&["mamba_expand"]) {
        return hidden.checked_mul(expand);
    }
    match read(&["intermediate_size"]) {
        Some(inner) => Some(inner),
        None => hidden.checked_mul(read(&["expand"]).unwrap_or(2)),
    }
}
