//! PromQL: Prometheus' own scripts, limits, and canceling.

mod data;
mod language;
mod limits;
mod runner;
mod script;
