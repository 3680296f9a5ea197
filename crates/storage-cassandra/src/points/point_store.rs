//! The points of a keyspace: `writer` puts them, `reader` reads them, `remover` removes them. The index leads to their
//! rows, and is not known here.

use std::sync::Arc;

use crate::cql::connection::Cql;
use crate::cql::prepared::Preparer;
use crate::points::dead_cells::DeadCells;
use crate::points::spacing::Spacings;
use crate::points::statements::PointStatements;
use promkairos_kairos::RowSpec;
use promkairos_storage::Result;

/// The points of a keyspace.
pub(crate) struct PointStore {
    pub(crate) cql: Arc<Cql>,
    pub(crate) statements: PointStatements,
    pub(crate) spec: RowSpec,
    /// Batches of one write that are sent at the same time; the executor limits all of them together.
    pub(crate) in_flight: usize,
    pub(crate) spacings: Spacings,
    pub(crate) dead_cells: DeadCells,
}

impl PointStore {
    pub(crate) async fn prepare(cql: &Arc<Cql>, on: &Preparer<'_>, spec: RowSpec) -> Result<Self> {
        Ok(Self {
            cql: Arc::clone(cql),
            statements: on.points().await?,
            spec,
            in_flight: on.options.in_flight.max(1),
            spacings: Spacings::default(),
            dead_cells: DeadCells::default(),
        })
    }

    /// Frees memory that only saves time.
    pub(crate) fn relieve(&self) {
        self.spacings.forget_all();
    }
}
