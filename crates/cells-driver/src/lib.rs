//! Platform-neutral client of a Cells node.
#![doc = ""]

pub mod host;
