//! wasm-bindgen adapters of the Cells driver: convert, call the driver, convert back. No logic lives here, and nothing
//! that can panic.
//!
//! `WebHost` is the platform below the driver; every other module is the JavaScript face of one concept. The package
//! around it is `pkg/`, whose hand-written types are the documentation of this face.
#![cfg(target_family = "wasm")]

mod convert;
mod credentials;
mod driver;
mod error;
mod events;
mod files;
mod harness;
mod host;
mod listener;
mod mutations;
mod native;
mod options;
mod process;
mod promise;
mod read_stream;
mod seq;
mod sources;
mod stat;
mod storage;
mod transport;

pub use driver::{CellsDriver, create_cells_driver};
pub use error::set_error_class;
pub use events::Subscription;
pub use files::FileClient;
pub use harness::HarnessClient;
pub use host::WebHost;
pub use native::{harness_event, harness_items, harness_request};
pub use process::ProcessSession;
pub use seq::SeqClient;
pub use sources::FileSource;
pub use storage::FileStorage;
pub use transport::Transport;
