//! The write-ahead log: a write is on disk before it is acknowledged.
//!
//! Requests append records to a buffer; one thread writes the buffer, syncs it and then answers all
//! requests of that round (group commit). [`record`] and [`mod@checkpoint`] define the bytes,
//! [`segment`] is a file, [`handle`] is for requests, [`writer`] is the thread, [`mod@log`] is what
//! both share. [`replay`] distinguishes a torn tail from damage at start, [`reread`] reads held
//! records again, and [`repair`](fn@repair) repairs damage with [`survey`] and [`contents`].
//! [`mod@open`] starts all of it. [`mark`] distinguishes a lost log from one that never existed.
//! Files are written through [`log_files`](promkairos_storage::log_files). Except for the counts of
//! [`contents`] the log knows no samples: it keeps request bodies as received.

mod checkpoint;
mod contents;
mod folder;
mod handle;
mod log;
mod loss;
mod mark;
mod open;
mod options;
mod record;
mod repair;
mod replay;
mod reread;
mod segment;
mod survey;
mod unflushed;
mod writer;

pub use checkpoint::checkpoint;
pub use contents::Contents;
pub use folder::{in_use, is_new};
pub use handle::{Commit, Wal};
pub use log::Admission;
pub use loss::Loss;
pub use mark::{Mark, check_there, forget_mark, is_gone};
pub use open::{LogRead, open, read};
pub use options::WalOptions;
pub use record::{Entry, Record};
pub use repair::{RepairMode, RepairReport, repair, repair_on};
pub use replay::Visit;
pub use unflushed::{Unflushed, unflushed};
