//! One small generator of random numbers, so that stories, initial weights and the order of the
//! training data are the same on every machine. candle's own CPU generator cannot be seeded.

/// SplitMix64: one word of state, full period, good enough for choosing words.
pub struct Random(u64);

impl Random {
    /// The same `seed` and `stream` always give the same sequence; streams are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xA076_1D64_78BD_642F));
        random.word();
        random
    }

    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..len`.
    pub fn below(&mut self, len: usize) -> usize {
        (self.uniform() * len as f64) as usize
    }

    /// An index in `0..len` where each is `ratio` times as likely as the one before it.
    ///
    /// A text whose choices have favourites has a clear most likely continuation, which is what
    /// a drafter can learn to guess.
    pub fn favouring_first(&mut self, len: usize, ratio: f64) -> usize {
        let total: f64 = (0..len).map(|index| ratio.powi(index as i32)).sum();
        let mut left = self.uniform() * total;
        for index in 0..len {
            left -= ratio.powi(index as i32);
            if left < 0.0 {
                return index;
            }
        }
        len - 1
    }

    /// Standard normal, by Box and Muller's transform.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
