//! Where an evaluation happens: at which steps, and where its points are counted.

use crate::counts::Destination;
use crate::steps::Steps;

/// The steps of an evaluation, and where its points are counted.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub steps: Steps,
    pub counted: Destination,
}
