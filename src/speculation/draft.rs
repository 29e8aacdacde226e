//! A draft: a tree of target token ids hanging from the anchor. A chain is a tree of single children.

use std::sync::Arc;

use crate::sampling::Probabilities;

/// Which drafter made a node: its name in the table of drafters. Cost and acceptance differ by source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Source(pub &'static str);

/// How a node's token was chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposal {
    /// Deterministically, given what is before it (and the shared noise of a coupled run).
    Point,
    /// Drawn from exactly these probabilities over target token ids. Siblings that share them were drawn
    /// without replacement, in order.
    Sampled(Arc<Probabilities>),
}

/// One proposed token.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftNode {
    /// Target token id.
    pub token: u32,
    /// An earlier node, or none for a child of the anchor.
    pub parent: Option<usize>,
    /// How it was chosen.
    pub proposal: Proposal,
    /// Who chose it.
    pub source: Source,
}

/// Proposed tokens, parents before children.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    nodes: Vec<DraftNode>,
    depths: Vec<usize>,
}

impl Draft {
    /// Adds a node and returns its number.
    ///
    /// # Panics
    /// When the parent is not an earlier node.
    pub fn push(&mut self, node: DraftNode) -> usize {
        let depth = match node.parent {
            Some(parent) => self.depths[parent] + 1,
            None => 1,
        };
        self.nodes.push(node);
        self.depths.push(depth);
        self.nodes.len() - 1
    }

    /// A chain of deterministic tokens.
    pub fn chain(tokens: &[u32], source: Source) -> Self {
        let mut draft = Self::default();
        for (index, &token) in tokens.iter().enumerate() {
            draft.push(DraftNode { token, parent: index.checked_sub(1), proposal: Proposal::Point, source });
        }
        draft
    }

    /// The nodes, parents before children.
    pub fn nodes(&self) -> &[DraftNode] {
        &self.nodes
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing is proposed.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Nodes from the anchor to `node`, itself included: 1 for a child of the anchor.
    pub fn depth(&self, node: usize) -> usize {
        self.depths[node]
    }

    /// The longest path, in nodes.
    pub fn max_depth(&self) -> usize {
        self.depths.iter().copied().max().unwrap_or(0)
    }

    /// Whether some node has two children.
    pub fn branches(&self) -> bool {
        self.max_depth() < self.len()
    }

    /// Tokens from the anchor's child down to `node`; none for the anchor itself.
    pub fn path(&self, node: Option<usize>) -> Vec<u32> {
        let mut tokens: Vec<u32> = std::iter::successors(node, |node| self.nodes[*node].parent)
            .map(|node| self.nodes[node].token)
            .collect();
        tokens.reverse();
        tokens
    }

    /// Children of a node, or of the anchor, in order.
    pub fn children(&self, parent: Option<usize>) -> impl Iterator<Item = usize> {
        self.nodes.iter().enumerate().filter(move |(_, node)| node.parent == parent).map(|(index, _)| index)
    }
}
