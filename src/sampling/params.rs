//! Sampling parameters: how a row of logits becomes a distribution.

/// Below this temperature, scores overflow.
const MIN_TEMPERATURE: f64 = 1e-6;

/// How a row of logits becomes a distribution. Applied in the order of the fields, which is that of
/// Hugging Face transformers, with the penalties of the OpenAI interface behind the repetition penalty.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SamplingParams {
    /// Added to the logits of single tokens; minus infinity forbids one.
    #[serde(serialize_with = "biases")]
    pub logit_bias: Vec<(u32, f32)>,
    /// Divides positive and multiplies negative logits of tokens of prompt and text; 1 is off.
    pub repetition_penalty: f64,
    /// Taken from a token's logit for every time it is in the text; 0 is off.
    pub frequency_penalty: f64,
    /// Taken once from the logit of every token of the text; 0 is off.
    pub presence_penalty: f64,
    /// Divides the logits; 0 means the arg-max, which makes all that follow irrelevant.
    pub temperature: f64,
    /// Keeps the tokens with the `top_k` largest logits, ties with the last included; 0 is off.
    pub top_k: usize,
    /// Keeps the fewest most likely tokens that together have at least this probability; 1 is off.
    pub top_p: f64,
    /// Keeps tokens with at least this fraction of the largest probability; 0 is off.
    pub min_p: f64,
    /// Keeps the tokens whose surprise is nearest the entropy, up to this probability; 1 is off.
    /// (Meister et al., "Locally Typical Sampling", 2023.)
    pub typical_p: f64,
}

/// JSON has no infinity, and a forbidden token must not be lost.
fn biases<S: serde::Serializer>(biases: &[(u32, f32)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(biases.iter().map(|(token, bias)| {
        let bias = if bias.is_finite() { serde_json::json!(bias) } else { serde_json::json!("-inf") };
        (token, bias)
    }))
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            logit_bias: Vec::new(),
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
        }
    }
}

impl SamplingParams {
    /// Whether the text does not depend on noise.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// What is wrong with a value, named as `generation_config.json` names it; none when all can be used.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let temperature = self.temperature;
        let checks = [
            ("temperature", temperature, temperature.is_finite() && temperature >= 0.0, "0 or more"),
            ("top_p", self.top_p, share(self.top_p), "between 0 and 1"),
            ("min_p", self.min_p, share(self.min_p), "between 0 and 1"),
            ("typical_p", self.typical_p, share(self.typical_p), "between 0 and 1"),
            (
                "repetition_penalty",
                self.repetition_penalty,
                self.repetition_penalty.is_finite() && self.repetition_penalty > 0.0,
                "above 0",
            ),
            ("frequency_penalty", self.frequency_penalty, self.frequency_penalty.is_finite(), "a number"),
            ("presence_penalty", self.presence_penalty, self.presence_penalty.is_finite(), "a number"),
        ];
        if let Some((name, value, _, what)) = checks.iter().find(|(_, _, is_right, _)| !is_right) {
            return Some((name, format!("{value} is not {what}")));
        }
        if temperature > 0.0 && temperature < MIN_TEMPERATURE {
            let problem = "is too close to 0 to sample at; 0 takes the most likely token";
            return Some(("temperature", format!("{temperature} {problem}")));
        }
        None
    }

    /// Whether logits are changed before the temperature is.
    pub(super) fn adjusts(&self) -> bool {
        !self.logit_bias.is_empty()
            || self.repetition_penalty != 1.0
            || self.frequency_penalty != 0.0
            || self.presence_penalty != 0.0
    }

    /// Whether tokens are dropped after the temperature was applied.
    pub(super) fn truncates(&self) -> bool {
        !self.is_greedy() && (self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0 || self.typical_p < 1.0)
    }
}
