//! Bodies of requests.

use std::any::Any;
use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;

use crate::host::MaybeSend;

/// The body of a request. It is sent once; what is not in memory is gone then.
pub enum RequestBody {
    /// In the memory of this program.
    Bytes(Bytes),
    /// Piece by piece, as the transfer takes them.
    Stream {
        /// How many bytes there are, if it is known: the value of `Content-Length`.
        size: Option<u64>,
        /// The pieces. The transfer is broken off when one is an error, so that no node takes the body for whole.
        pieces: ByteStream,
    },
    /// Something that the platform can send by itself. It never comes into the memory of this program.
    Platform(Box<dyn PlatformContent>),
}

/// Pieces of content, in order. Empty pieces are allowed.
#[cfg(not(target_family = "wasm"))]
pub type ByteStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;
/// Pieces of content, in order. Empty pieces are allowed.
#[cfg(target_family = "wasm")]
pub type ByteStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>>>>;

/// Content in an object of the platform, for example a `Blob`.
pub trait PlatformContent: MaybeSend + 'static {
    /// How many bytes it has, if it is known.
    fn size(&self) -> Option<u64>;

    /// The platform's own type, for the host that sends it.
    fn as_any(&self) -> &dyn Any;
}

impl RequestBody {
    /// How many bytes there are, if it is known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Stream { size, .. } => *size,
            Self::Platform(content) => content.size(),
        }
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.size() {
            Some(size) => write!(f, "RequestBody({size} bytes)"),
            None => f.write_str("RequestBody"),
        }
    }
}
