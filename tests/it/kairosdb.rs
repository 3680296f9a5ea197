//! Beside KairosDB: what it wrote and answered once, and how soon its series are seen.

mod answers;
mod series_cache;
