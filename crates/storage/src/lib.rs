//! The interface between the stores and all code above them: the trait [`Store`].
//!
//! It speaks of series, not of rows or files, because stores differ most in how they select series
//! by label matchers. The contract is documented at the trait.
//!
//! Here is also what stores and their callers share: the memory store, several stores as one, label indexes, merging of
//! chunks, permits of requests, the memory of the process, the system clock, and the only code that opens files for
//! writing.

mod admission;
pub mod clock;
pub mod clusters;
pub mod codec;
mod day_counts;
mod delete_cost;
pub mod disk;
mod error;
pub mod exemplars;
pub mod failures;
mod folder_lock;
pub mod forecast;
pub mod frame;
pub mod index;
pub mod limited;
pub mod log_files;
pub mod memory;
pub mod merge;
mod pressure;
mod rate_pacer;
pub mod run_length;
mod select;
mod store;
mod unsynced;

pub use self::admission::{NoPermit, Permit, Permits};
pub use self::clock::Clock;
pub use self::day_counts::DayCounts;
pub use self::delete_cost::{DeleteCost, Tombstones};
pub use self::error::{Result, StoreError, file_failed};
pub use self::exemplars::{
    ExemplarList, Gathered as GatheredExemplars, Pieces as ExemplarPieces,
    bytes_of as exemplar_bytes, merged as merged_exemplars,
};
pub use self::folder_lock::{FolderLock, NotLocked};
pub use self::forecast::{Basis, Expected, Forecast};
pub use self::limited::{Limited, ListSize, Listed};
pub use self::pressure::{Level, MEMORY_LIMIT, Pressure, ReadRoom, Refused, SeriesRoom};
pub use self::rate_pacer::RatePacer;
pub use self::run_length::{RunLength, bytes_of_chunk, chunk_bytes};
pub use self::select::{
    QueryHints, SelectHints, Selection, SelectionMemory, SelectionSize, SeriesQuery, SeriesReader,
    check_series_bytes,
};
pub use self::store::{Flush, FlushOutcome, SeriesRun, SharedStore, Stats, Store};
pub use self::unsynced::{Since, Starts, Unsynced};
