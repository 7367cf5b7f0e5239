//! The native client against a running local node, directly and through the fault proxy.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod stage;

mod agent;
mod examples;
mod faults;
mod files;
mod live;
mod memory;
mod network;
mod processes;
mod sessions;
mod sources;
mod writes;
