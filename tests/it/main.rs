//! Integration tests: one binary, a module a topic.

#![expect(clippy::print_stdout, reason = "tests say their seeds and logs")]

mod api;
mod batch;
mod bombs;
mod cassandra;
mod chunk;
mod clients;
mod clocks;
mod clusters;
mod commands;
mod connections;
mod copy;
mod crowd;
mod delete_command;
mod docs;
mod embedded;
mod full_disk;
mod fuzz;
mod grafana;
mod head;
mod kairos;
mod kairosdb;
mod kill;
mod limits;
mod log;
mod memory;
mod owner;
mod packaging;
mod paused;
mod prometheus;
mod promql;
mod reading;
mod reload;
mod replay;
mod slow_senders;
mod stop;
mod store;
mod support;
mod tag_index;
mod tidy;
mod traces;
mod unserved;
mod web;
mod wire;
mod writes;
