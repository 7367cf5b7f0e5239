//! Pieces of a body.

use std::any::Any;
use std::ops::Range;

use bytes::Bytes;

use crate::host::MaybeSend;

/// A piece of a body, which may stay where the platform has it: a browser need not copy a file into the memory of this
/// program and out of it again when nobody here looks at it.
pub enum Chunk {
    /// In the memory of this program.
    Bytes(Bytes),
    /// In the memory of the platform.
    Platform(Box<dyn PlatformBytes>),
}

/// Bytes that the platform keeps.
pub trait PlatformBytes: MaybeSend + 'static {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of them, not copied. The range lies within them.
    fn slice(&self, range: Range<usize>) -> Box<dyn PlatformBytes>;

    /// A copy in the memory of this program.
    fn to_bytes(&self) -> Bytes;

    /// The platform's own type, for the adapter that hands them on.
    fn as_any(&self) -> &dyn Any;
}

impl Chunk {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Platform(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, copied into the memory of this program if they are not there.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Platform(bytes) => bytes.to_bytes(),
        }
    }

    /// A part of it, not copied. What lies beyond the end is left out.
    #[must_use]
    pub fn slice(self, range: Range<usize>) -> Self {
        let end = range.end.min(self.len());
        let range = range.start.min(end)..end;
        if range == (0..self.len()) {
            return self;
        }
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(range)),
            Self::Platform(bytes) => Self::Platform(bytes.slice(range)),
        }
    }
}

impl From<Bytes> for Chunk {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Kept(&'static [u8]);

    impl PlatformBytes for Kept {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn slice(&self, range: Range<usize>) -> Box<dyn PlatformBytes> {
            Box::new(Self(&self.0[range]))
        }
        fn to_bytes(&self) -> Bytes {
            Bytes::from_static(self.0)
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    #[test]
    fn a_slice_is_what_lies_in_the_range_wherever_the_bytes_are() {
        const TEXT: &[u8] = b"0123456789";
        for (range, expected) in
            [(0..10, "0123456789"), (0..99, "0123456789"), (3..5, "34"), (8..20, "89"), (4..4, ""), (20..30, "")]
        {
            for chunk in [Chunk::from(Bytes::from_static(TEXT)), Chunk::Platform(Box::new(Kept(TEXT)))] {
                let part = chunk.slice(range.clone());
                assert_eq!((part.len(), part.is_empty()), (expected.len(), expected.is_empty()), "{range:?}");
                assert_eq!(part.into_bytes(), expected, "{range:?}");
            }
        }
    }
}
