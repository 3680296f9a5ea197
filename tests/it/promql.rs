//! PromQL: Prometheus' own scripts, limits, and canceling.

mod answers;
mod data;
mod differential;
mod language;
mod limits;
mod over_http;
mod pieces;
mod read_once;
mod runner;
mod script;
mod step_counts;
