//! Which parts of a plan have the same value at all steps.

use super::node::Node;

/// What the planner knows of a node that it made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invariance {
    /// The value may differ from step to step.
    Varying,
    /// The same at all steps, and cheaper to compute once.
    Invariant,
    /// The same at all steps, and handled as such by its user: constants and windows.
    Plain,
}

impl Invariance {
    /// Whether the value is the same at all steps.
    pub(super) fn holds(self) -> bool {
        self != Self::Varying
    }
}

/// Puts an invariant node that is not part of a larger invariant one under `Node::Once`.
pub(super) fn once((node, invariance): (Node, Invariance)) -> Node {
    match invariance {
        Invariance::Invariant => Node::Once(Box::new(node)),
        Invariance::Varying | Invariance::Plain => node,
    }
}
