//! PromQL: Prometheus' own scripts, limits, and canceling.

mod data;
mod limits;
mod runner;
mod script;
