//! The one serializer of JSON text.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

use crate::limits::SAFE_INTEGER_MAX;

pub(super) fn to_vec<T: Serialize + ?Sized>(value: &T, exact: bool) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(128);
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Compact { exact });
    value.serialize(&mut serializer).ok()?;
    Some(text)
}

/// Whether integers are checked is told when it runs, because browsers download each kind of serializer as code of its own.
struct Compact {
    exact: bool,
}

impl Formatter for Compact {
    fn write_u64<W: ?Sized + Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        self.check(value)?;
        CompactFormatter.write_u64(writer, value)
    }

    fn write_i64<W: ?Sized + Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        self.check(value.unsigned_abs())?;
        CompactFormatter.write_i64(writer, value)
    }
}

impl Compact {
    fn check(&self, value: u64) -> io::Result<()> {
        if self.exact && value > SAFE_INTEGER_MAX { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}
