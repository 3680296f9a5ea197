//! PromQL: Prometheus' own scripts, limits, and canceling.

mod answers;
mod data;
mod differential;
mod language;
mod limits;
mod runner;
mod script;
