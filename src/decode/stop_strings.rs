//! Texts that end a generation, wherever token borders fall.

/// Watches a growing text for any of some strings and holds back what may become one.
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    stops: Vec<String>,
    held: String,
}

/// What became certain with a piece of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// Text that may be shown: no stop string begins in it.
    pub text: String,
    /// The stop string that was found, if one was; neither it nor anything behind it is in `text`.
    pub stop: Option<String>,
}

impl StopStrings {
    /// Watches for `stops`; empty ones are ignored.
    pub fn new(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        Self { stops, held: String::new() }
    }

    /// Takes the next piece. Of several stop strings in what is held, the one that begins first
    /// counts, then the longest; one that is complete does not wait for another that is not.
    pub fn push(&mut self, piece: &str) -> Passed {
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| Some((self.held.find(stop.as_str())?, stop)));
        if let Some((start, stop)) = found.min_by_key(|(start, stop)| (*start, usize::MAX - stop.len())) {
            let stop = Some(stop.clone());
            let mut text = std::mem::take(&mut self.held);
            text.truncate(start);
            return Passed { text, stop };
        }
        let begins_stop = |at: &usize| {
            let end = &self.held[*at..];
            self.stops.iter().any(|stop| stop.starts_with(end))
        };
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest);
        let mut starts = (from..self.held.len()).filter(|at| self.held.is_char_boundary(*at));
        let certain = starts.find(begins_stop).unwrap_or(self.held.len());
        let held = self.held.split_off(certain);
        Passed { text: std::mem::replace(&mut self.held, held), stop: None }
    }

    /// Ends the text: what was held back did not become a stop string.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of pieces, and the stop string that ended them.
    fn shown(stops: &[&str], pieces: &[&str]) -> (String, Option<String>) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut watch = StopStrings::new(&stops);
        let mut text = String::new();
        for piece in pieces {
            let passed = watch.push(piece);
            text.push_str(&passed.text);
            assert!(!stops.iter().any(|stop| !stop.is_empty() && text.contains(stop.as_str())));
            if passed.stop.is_some() {
                return (text, passed.stop);
            }
        }
        text.push_str(&watch.finish());
        (text, None)
    }

    #[test]
    fn stops_are_found_across_pieces() {
        let found = |text: &str, stop: &str| (text.to_owned(), Some(stop.to_owned()));
        assert_eq!(shown(&["END"], &["a E", "N", "D b"]), found("a ", "END"));
        assert_eq!(shown(&["END"], &["a EN", "END"]), found("a EN", "END"));
        assert_eq!(shown(&["ab", "b"], &["xa", "bc"]), found("x", "ab"));
        assert_eq!(shown(&["\n", "\n\n"], &["x\n\ny"]), found("x", "\n\n"));
        assert_eq!(shown(&["é!"], &["caf", "é", "!"]), found("caf", "é!"));
    }

    #[test]
    fn what_does_not_become_a_stop_is_shown() {
        assert_eq!(shown(&["END"], &["a E", "N"]), ("a EN".to_owned(), None));
        assert_eq!(shown(&["aab"], &["aaa", "ab"]), ("aa".to_owned(), Some("aab".to_owned())));
        assert_eq!(shown(&[""], &["x"]), ("x".to_owned(), None));
        assert_eq!(shown(&[], &["x", "y"]), ("xy".to_owned(), None));
    }
}
