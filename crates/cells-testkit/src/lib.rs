//! Test support for the Cells crates. A dev-dependency only: nothing that ships links it.
//!
//! | module | gives |
//! |---|---|
//! | [`fixtures`] | the golden wire messages, and the checks that every parser of replies passes |
//! | [`fault_proxy`] | a loopback HTTP proxy between a client and a node that breaks chosen requests on purpose and counts all |
//! | [`local_node`] | `cells serve` as a process that a test can kill and start again |

#[cfg(not(target_family = "wasm"))]
pub mod fault_proxy;
pub mod fixtures;
#[cfg(not(target_family = "wasm"))]
pub mod local_node;
