//! Test support for the Cells crates. A dev-dependency only: nothing that ships links it.
//!
//! | module | gives |
//! |---|---|
//! | [`conformance`] | the cases that any node must pass, over plain HTTP |
//! | [`fake_host`] | a platform in memory: scripted replies, a virtual clock, counted requests |
//! | [`fault_runs`] | one mutation and one fault, drawn by a seed: the plan, the details, the table |
//! | [`fixtures`] | the golden wire messages, and the checks that every parser of replies passes |
//! | [`fault_proxy`] | a loopback HTTP proxy between a client and a node that breaks chosen requests on purpose and counts all |
//! | [`local_node`] | `cells serve` as a process that a test can kill and start again |
//! | [`old_node`] | a node of the generation before, in process, written from the wire document alone |

#[cfg(not(target_family = "wasm"))]
pub mod conformance;
// The same types on every platform, which is one thread on wasm.
#[cfg_attr(target_family = "wasm", allow(clippy::arc_with_non_send_sync))]
pub mod fake_host;
#[cfg(not(target_family = "wasm"))]
pub mod fault_proxy;
#[cfg(not(target_family = "wasm"))]
pub mod fault_runs;
pub mod fixtures;
#[cfg(not(target_family = "wasm"))]
pub mod local_node;
#[cfg(not(target_family = "wasm"))]
pub mod old_node;
