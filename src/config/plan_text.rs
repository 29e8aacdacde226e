//! A class's plan of layers in words, for evidence.

use super::families::Plan;

impl Plan {
    /// What the class does where no key says, such as `every 6th full, the others slide`.
    pub(super) fn in_words(self) -> String {
        match self {
            Self::Uniform => "all alike".to_owned(),
            Self::FullLast(every) => format!("every {} full, the others slide", ordinal(every)),
            Self::FullFirst(every) => {
                format!("the first and every {} after it full, the others slide", ordinal(every))
            }
            Self::FullFirstAndLast(every) => {
                format!("the first and every {} full, the others slide", ordinal(every))
            }
            Self::LinearThenFull(every) => format!("every {} full, the others recurrent", ordinal(every)),
            Self::FullThenLinear(every) => {
                format!("the first and every {} after it full, the others recurrent", ordinal(every))
            }
            Self::LinearFirst(every) => {
                format!("every {} after the first full, the others recurrent", ordinal(every))
            }
            Self::Groups(size) => format!("the last of each {size} full, the others recurrent"),
            Self::Period(period, offset) => {
                format!("full where index % {period} = {offset}, the others recurrent")
            }
            Self::Zamba(period, offset) => {
                format!(
                    "both mixers in layer 2 and where (index - 3) % {period} = {offset}, the others recurrent"
                )
            }
            Self::BothAt(indices) => format!("both mixers in {indices:?}, the others recurrent"),
            Self::Griffin => "two recurrent, one with a window, repeated".to_owned(),
            Self::Chunked(every) => format!("every {} full, the others chunked", ordinal(every)),
            Self::CrossAt(indices) => format!("cross-attention in {indices:?}, the others full"),
            Self::Compressed => "a window with the past compressed 128:1 or 4:1".to_owned(),
            Self::Yoco(_) => {
                "recurrent and windowed layers, then layers that share one full cache".to_owned()
            }
            Self::AllRecurrent => "all recurrent".to_owned(),
            Self::AllBoth => "both mixers in every layer".to_owned(),
            Self::Stated => "stated in the file".to_owned(),
        }
    }
}

fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_read_like_sentences() {
        assert_eq!(Plan::FullLast(6).in_words(), "every 6th full, the others slide");
        assert_eq!(Plan::FullFirst(2).in_words(), "the first and every 2nd after it full, the others slide");
        assert_eq!(["11th", "21st", "3rd"], [11, 21, 3].map(ordinal)[..]);
    }
}
