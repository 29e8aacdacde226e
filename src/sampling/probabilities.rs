//! Probabilities that tokens are drawn from.
//!
//! One object is both what a token is drawn from and what a rule later takes for its distribution, so
//! the two cannot differ.

/// A distribution over token ids: single-precision weights and their sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Probabilities {
    /// Ids in increasing order; none when the weights are those of the ids from 0.
    tokens: Option<Vec<u32>>,
    weights: Vec<f32>,
    total: f64,
}

impl Probabilities {
    /// Probabilities in proportion to `weights` of `tokens`, or of the ids from 0.
    ///
    /// # Panics
    /// When `tokens` do not increase or are not as many as `weights`.
    pub fn new(tokens: Option<Vec<u32>>, weights: Vec<f32>) -> Self {
        if let Some(tokens) = &tokens {
            assert!(tokens.is_sorted_by(|a, b| a < b) && tokens.len() == weights.len(), "one weight per id");
        }
        let total = weights.iter().map(|&weight| f64::from(weight)).sum();
        Self { tokens, weights, total }
    }

    /// All probability on one token.
    pub fn certain(token: u32) -> Self {
        Self { tokens: Some(vec![token]), weights: vec![1.0], total: 1.0 }
    }

    /// Probability of one token, 0 for those that are not there.
    pub fn get(&self, token: u32) -> f64 {
        let index = match &self.tokens {
            Some(tokens) => tokens.binary_search(&token).ok(),
            None => Some(token as usize),
        };
        index.and_then(|index| self.weights.get(index)).map_or(0.0, |weight| f64::from(*weight) / self.total)
    }

    /// All tokens with their probabilities, by id.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        self.weights.iter().enumerate().map(|(index, weight)| {
            let token = self.tokens.as_ref().map_or_else(
                || u32::try_from(index).expect("a vocabulary has 32-bit ids"),
                |tokens| tokens[index],
            );
            (token, f64::from(*weight) / self.total)
        })
    }

    /// The token that a uniform number in [0, 1) picks: each with exactly its probability.
    pub fn draw(&self, uniform: f64) -> u32 {
        pick(self.iter(), uniform)
    }

    /// The same distribution with one token left out; none when nothing else is there.
    pub fn without(&self, token: u32) -> Option<Self> {
        let tokens: Vec<u32> = self.iter().map(|(token, _)| token).collect();
        let mut weights = self.weights.clone();
        if let Ok(index) = tokens.binary_search(&token) {
            weights[index] = 0.0;
        }
        let rest = Self::new(Some(tokens), weights);
        (rest.total > 0.0).then_some(rest)
    }
}

/// The token at which the running sum of `masses`, which add up to 1, exceeds `uniform`.
///
/// # Panics
/// When no mass is larger than 0.
pub(crate) fn pick(masses: impl Iterator<Item = (u32, f64)>, uniform: f64) -> u32 {
    let (mut sum, mut last) = (0.0, None);
    for (token, mass) in masses {
        if mass > 0.0 {
            sum += mass;
            last = Some(token);
            if sum > uniform {
                return token;
            }
        }
    }
    // Rounding may leave the sum just below 1.
    last.expect("something has probability")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_weights() {
        let p = Probabilities::new(Some(vec![3, 5, 9]), vec![1.0, 0.0, 3.0]);
        assert_eq!((p.get(3), p.get(5), p.get(9), p.get(4)), (0.25, 0.0, 0.75, 0.0));
        assert_eq!([0.0, 0.2499, 0.25, 0.999_999].map(|u| p.draw(u)), [3, 3, 9, 9]);
        let rest = p.without(9).unwrap();
        assert_eq!((rest.get(3), rest.without(3)), (1.0, None));
    }

    #[test]
    fn without_ids_the_index_is_the_id() {
        let p = Probabilities::new(None, vec![1.0, 1.0]);
        assert_eq!((p.get(1), p.get(2), p.draw(0.5)), (0.5, 0.0, 1));
    }
}
