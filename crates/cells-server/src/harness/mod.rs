//! Agent sessions: the service that owns receipts and events, and the plugins behind it (`harness.md`).

pub mod plugin;
pub mod ring;
pub mod scripted;
