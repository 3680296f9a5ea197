//! Beside KairosDB: its recorded rows and answers, and a real KairosDB on the same keyspace.

mod answers;
mod both_ways;
mod configured;
mod deletes;
mod doctor;
mod expiry;
mod faults;
mod leaving;
mod listener;
mod points;
mod queries;
mod read_cache;
mod senders;
mod series_cache;
mod telnet;
mod translate;
mod writes;
