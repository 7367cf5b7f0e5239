//! The program `cells` as a person or a script meets it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first thing that cannot be")]

mod agents;
mod completions;
mod connection;
mod copies;
mod exec;
mod fault_kill;
mod files;
mod full_disk;
mod interrupts;
mod killed_node;
mod killed_processes;
mod lost;
mod resume;
mod serve;
mod sessions;
mod stage;
mod terminal;
mod writes;
