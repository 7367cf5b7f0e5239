//! A real node on a free port of this machine, and a plain HTTP client.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first thing that cannot be")]

mod files;
mod principals;
mod process;
mod start;
mod support;
