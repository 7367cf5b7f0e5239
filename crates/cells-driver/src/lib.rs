//! Platform-neutral client of a Cells node.
#![doc = ""]

pub mod host;
#[allow(dead_code)] // read by the event stream and by MCP replies
mod sse;
