//! How many tokens each source may draft in a round.

use crate::speculation::Source;

/// Ceilings on the nodes a drafter may propose, by source: n-grams cost nothing where a model costs a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// For sources that are not listed.
    otherwise: usize,
    by_source: Vec<(Source, usize)>,
}

impl Budget {
    /// The same for every source.
    pub fn uniform(nodes: usize) -> Self {
        Self { otherwise: nodes, by_source: Vec::new() }
    }

    /// One per source; nothing for any other.
    pub fn by_source(by_source: Vec<(Source, usize)>) -> Self {
        Self { otherwise: 0, by_source }
    }

    /// The ceiling of one source, in nodes.
    pub fn of(&self, source: Source) -> usize {
        self.by_source.iter().find(|(known, _)| *known == source).map_or(self.otherwise, |(_, nodes)| *nodes)
    }

    /// The largest ceiling.
    pub fn largest(&self) -> usize {
        self.by_source.iter().map(|(_, nodes)| *nodes).max().unwrap_or(self.otherwise)
    }

    /// The same with no ceiling above `nodes`.
    pub fn capped(&self, nodes: usize) -> Self {
        let by_source = self.by_source.iter().map(|(source, budget)| (*source, (*budget).min(nodes)));
        Self { otherwise: self.otherwise.min(nodes), by_source: by_source.collect() }
    }
}
