//! Agent sessions: the service that owns receipts and events, and the plugins behind it (`harness.md`).

mod arguments;
pub(crate) mod clock;
mod commands;
mod instance;
mod mutation;
mod outputs;
pub mod plugin;
mod polling;
mod receipts;
pub mod ring;
pub mod scripted;
mod service;
mod summary;
#[cfg(test)]
mod tests;
pub(crate) mod tools;

pub(crate) use receipts::purge_before;
pub use receipts::{OpenError, ReceiptLimits};
pub use service::{Caller, HarnessOptions, HarnessService, StartError};
