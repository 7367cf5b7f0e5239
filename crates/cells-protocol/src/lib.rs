//! Wire types of the Cells node protocol, version 0.4.
//!
//! Everything that crosses the network is parsed here exactly once, into types that cannot hold an invalid value.
//! Unknown members are ignored on read, because nodes are newer than clients. There is no I/O, no clock and no
//! async code in this crate.
//!
//! Modules in reading order: [`limits`] (every bound), [`ids`] and [`text`] (the small types), [`error`] (the closed
//! list of error kinds), [`endpoint`] and [`paths`] (addresses), then one module per feature.

pub mod limits;

pub mod ids;
pub mod json;
pub mod text;
pub mod time;

pub mod endpoint;
pub mod error;
pub mod paths;

pub mod authorization;
pub mod capabilities;
pub mod discovery;

pub mod commands;
pub mod events;
pub mod file_receipts;
pub mod file_recovery;
pub mod files;
pub mod harness;
pub mod mcp;
pub mod mutations;
pub mod process;
pub mod receipts;
pub mod seq;
