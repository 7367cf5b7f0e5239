//! `files-http.md` §6, in every way in which this machine can run processes.

mod checks;
mod ends;
mod output;
mod sandbox;
mod support;
mod topics;
