//! Numbers as people type and read them: `32k` tokens, `24GiB`, `1.5 MiB`.
//!
//! What is typed must be exact or refused; what is shown is rounded, and never used to compute.

const KIB: u64 = 1 << 10;

/// Binary and decimal units of bytes, upper-case.
const BYTE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("K", KIB),
    ("KB", 1000),
    ("KIB", KIB),
    ("M", KIB * KIB),
    ("MB", 1_000_000),
    ("MIB", KIB * KIB),
    ("G", KIB * KIB * KIB),
    ("GB", 1_000_000_000),
    ("GIB", KIB * KIB * KIB),
    ("T", KIB * KIB * KIB * KIB),
    ("TB", 1_000_000_000_000),
    ("TIB", KIB * KIB * KIB * KIB),
];

/// Units of tokens, as context lengths are quoted: 128k is 131072.
const TOKEN_UNITS: &[(&str, u64)] = &[("", 1), ("K", KIB), ("M", KIB * KIB)];

/// Longest context that is believed, in tokens.
const MAX_TOKENS: u64 = 1 << 40;

/// Splits `text` into a number and its unit in upper case.
fn split(text: &str) -> Option<(&str, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (!number.is_empty()).then(|| (number, unit.trim().to_ascii_uppercase()))
}

/// A context length in tokens: `4096`, `4k`, `1m`.
///
/// # Errors
/// What is wrong with it, for a message about the flag.
pub fn tokens(text: &str) -> Result<u64, String> {
    let fault = || format!("`{text}` is not a number of tokens such as 4096, 32k or 1m");
    let (number, unit) = split(text).ok_or_else(fault)?;
    let factor = TOKEN_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fault)?.1;
    let number: u64 = number.replace('_', "").parse().map_err(|_| fault())?;
    let tokens = number.checked_mul(factor).filter(|&tokens| (1..=MAX_TOKENS).contains(&tokens));
    tokens.ok_or_else(|| format!("`{text}` is not between 1 and {MAX_TOKENS} tokens"))
}

/// A size in bytes: `24GiB`, `80GB`, `512M`. `K`, `M`, `G` and `T` alone are binary.
///
/// # Errors
/// What is wrong with it, for a message about the flag.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked against the range")]
pub fn bytes(text: &str) -> Result<u64, String> {
    let fault = || format!("`{text}` is not a size such as 24GiB, 80GB or 512MiB");
    let (number, unit) = split(text).ok_or_else(fault)?;
    let factor = BYTE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fault)?.1;
    let number: f64 = number.replace('_', "").parse().map_err(|_| fault())?;
    let bytes = number * factor as f64;
    if !(1.0..=1e18).contains(&bytes) {
        return Err(format!("`{text}` is not a usable size"));
    }
    Ok(bytes as u64)
}

/// A size with a binary unit and at most two digits behind the point, such as `128 KiB` or `68.62 KiB`.
pub fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", short(value), UNITS[unit])
}

/// At most two digits behind the point, without trailing zeros; three digits in all where there are more.
pub fn short(value: f64) -> String {
    let text = if value >= 100.0 { format!("{value:.1}") } else { format!("{value:.2}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An integer with commas, such as `131,072`.
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large count in short, such as `8.03 B` or `135 M`.
pub fn show_large(count: u64) -> String {
    let value = count as f64;
    match count {
        0..=999_999 => show_count(count),
        1_000_000..=999_999_999 => format!("{} M", short(value / 1e6)),
        1_000_000_000..=999_999_999_999 => format!("{} B", short(value / 1e9)),
        _ => format!("{} T", short(value / 1e12)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_binary_thousands() {
        assert_eq!(tokens("4096"), Ok(4096));
        assert_eq!(tokens("128k"), Ok(131_072));
        assert_eq!(tokens("1M"), Ok(1 << 20));
        for wrong in ["", "k", "0", "4.5k", "-4k", "4q", "99999999999999999999", "2000000m"] {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_know_both_kinds_of_units() {
        assert_eq!(bytes("24GiB"), Ok(24 << 30));
        assert_eq!(bytes("80 GB"), Ok(80_000_000_000));
        assert_eq!(bytes("1.5g"), Ok(3 << 29));
        for wrong in ["", "GiB", "24", "24GiBs", "0GiB", "1e9B", "9999999999TiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(show_bytes(70_272), "68.62 KiB");
        assert_eq!(show_bytes(131_072), "128 KiB");
        assert_eq!(show_bytes(0), "0 B");
        assert_eq!(show_bytes(u64::MAX), "16384 PiB");
        assert_eq!(show_count(1_234_567), "1,234,567");
        assert_eq!(show_count(12), "12");
        assert_eq!(show_large(8_030_261_248), "8.03 B");
    }
}
