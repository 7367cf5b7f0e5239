//! The local Cells node.

pub mod harness;
