//! The driver on a fake platform: virtual time, scripted replies, counted requests.

// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod node;

mod any_range;
mod broken_replies;
mod connections;
mod discovery;
mod events;
mod harness_reads;
mod host_contract;
mod http_transport;
mod live;
mod mcp;
mod mutations;
mod output;
mod process;
mod read;
mod read_stream;
mod seq;
mod sessions;
mod settle;
mod sources;
mod stat;
mod storage;
mod transport;
mod writes;
