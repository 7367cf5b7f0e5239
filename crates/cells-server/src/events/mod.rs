//! The shared event stream, `POST /v1/events` (`cells-0.4.md` §2).
//!
//! [`endpoint`] answers the request, [`streams`] knows who has a stream open, [`stream`] feeds one, [`topic`] follows one
//! ring, [`frame`] writes.

mod endpoint;
mod frame;
mod process;
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod topic;

pub(crate) use endpoint::{EVENTS_PATH, router};
pub(crate) use streams::Streams;
