//! Shared cases that run on wasm.
