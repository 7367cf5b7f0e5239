//! What arrives from a node, whole and broken.

mod bounds;
mod fixtures;
mod texts;
