//! The MCP endpoint, revision 2026-07-28 (`harness.md` §1).
//!
//! [`endpoint`] makes every check that decides between HTTP and JSON-RPC errors, in the order of `harness.md` §1.1, and
//! answers what public MCP leaves open; `rmcp` speaks the protocol behind it. [`handler`] serves its three methods.

mod discovery;
mod endpoint;
mod envelope;
mod handler;
#[cfg(test)]
mod tests;
mod tools;

pub(crate) use endpoint::router;
