//! The tests of the driver on a fake platform, on wasm: the same files, the same cases.

#![cfg(target_family = "wasm")]
// Helpers of tests fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../crates/cells-driver/tests/driver/broken_replies.rs"]
mod broken_replies;
#[path = "../../crates/cells-driver/tests/driver/connections.rs"]
mod connections;
#[path = "../../crates/cells-driver/tests/driver/discovery.rs"]
mod discovery;
#[path = "../../crates/cells-driver/tests/driver/events.rs"]
mod events;
#[path = "../../crates/cells-driver/tests/driver/harness_reads.rs"]
mod harness_reads;
#[path = "../../crates/cells-driver/tests/driver/host_contract.rs"]
mod host_contract;
#[path = "../../crates/cells-driver/tests/driver/http_transport.rs"]
mod http_transport;
#[path = "../../crates/cells-driver/tests/driver/mcp.rs"]
mod mcp;
#[path = "../../crates/cells-driver/tests/driver/mutations.rs"]
mod mutations;
#[path = "../../crates/cells-driver/tests/driver/node.rs"]
mod node;
#[path = "../../crates/cells-driver/tests/driver/output.rs"]
mod output;
#[path = "../../crates/cells-driver/tests/driver/process.rs"]
mod process;
#[path = "../../crates/cells-driver/tests/driver/read.rs"]
mod read;
#[path = "../../crates/cells-driver/tests/driver/read_stream.rs"]
mod read_stream;
#[path = "../../crates/cells-driver/tests/driver/seq.rs"]
mod seq;
#[path = "../../crates/cells-driver/tests/driver/sessions.rs"]
mod sessions;
#[path = "../../crates/cells-driver/tests/driver/settle.rs"]
mod settle;
#[path = "../../crates/cells-driver/tests/driver/sources.rs"]
mod sources;
#[path = "../../crates/cells-driver/tests/driver/stat.rs"]
mod stat;
#[path = "../../crates/cells-driver/tests/driver/storage.rs"]
mod storage;
#[path = "../../crates/cells-driver/tests/driver/transport.rs"]
mod transport;
#[path = "../../crates/cells-driver/tests/driver/writes.rs"]
mod writes;
