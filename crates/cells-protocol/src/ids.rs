//! Identifiers. Each is a string that was checked when it was made; none can be empty.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{ID_MAX_BYTES, NATIVE_ID_MAX_BYTES};
use crate::text::is_label;

/// A string that does not have the form its identifier type demands.
///
/// The message names the type and the form, never the string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {form}")]
pub struct InvalidId {
    what: &'static str,
    form: &'static str,
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal, $form:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks `value` and takes it.
            ///
            /// # Errors
            /// [`InvalidId`] when the string does not have the form of this identifier.
            pub fn new(value: impl Into<String>) -> Result<Self, InvalidId> {
                let value = value.into();
                let check: fn(&str) -> bool = $check;
                if check(&value) { Ok(Self(value.into())) } else { Err(InvalidId { what: $what, form: $form }) }
            }

            /// The identifier as it stands on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(value: String) -> Result<Self, InvalidId> {
                Self::new(value)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), &self.0)
            }
        }
    };
}

identifier! {
    /// Identity of one mutation of a harness; made by the driver, never reused (`cells-0.4.md` §0.4).
    RequestId, "requestId", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Identity of one write of a file route; made by the driver, never reused (`files-http.md` §5.1).
    OperationId, "operationId", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Identity of an installation.
    ServerId, "serverId", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Stable name of a principal.
    PrincipalId, "principalId", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Name of a configured harness profile.
    ProfileId, "profileId", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Name of a workspace of a profile.
    WorkspaceId, "workspaceId", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Identity of a server-side project.
    ProjectId, "projectId", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Chosen by a client to address the frames of one topic of an event stream.
    TopicId, "topic id", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Random identity of a driver instance at an event endpoint.
    ClientId, "clientId", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// Process epoch of the harness service: 64 lowercase hex digits, new at every start of a node.
    Epoch, "epoch", "64 lowercase hex digits", |value| is_hex(value, 64)
}
identifier! {
    /// Epoch of an event ring: 32 lowercase hex digits.
    EventEpoch, "eventEpoch", "32 lowercase hex digits", |value| is_hex(value, 32)
}
identifier! {
    /// SHA-256 as 64 lowercase hex digits.
    Sha256Hex, "sha256", "64 lowercase hex digits", |value| is_hex(value, 64)
}
identifier! {
    /// Version of what a digest was made from; compared for equality only.
    DigestRevision, "revision", "1 to 128 characters of A-Z, a-z, 0-9, _ and -", is_id
}
identifier! {
    /// A native identifier (session, turn, item): opaque, at most 512 bytes, no control characters.
    NativeId, "native id", "1 to 512 bytes without control characters", |value| is_label(value, NATIVE_ID_MAX_BYTES)
}
identifier! {
    /// Name of an export: `[A-Za-z0-9_-]+`.
    Alias, "alias", "one or more characters of A-Z, a-z, 0-9, _ and -", is_alias
}
identifier! {
    /// Name of a slash command: `^[A-Za-z0-9][A-Za-z0-9_:.-]{0,63}$`.
    CommandName, "command name", "1 to 64 characters of A-Z, a-z, 0-9, _ : . - that start with a letter or digit", is_command_name
}

macro_rules! hex_identifier {
    ($name:ident, $bytes:literal) => {
        impl $name {
            /// The identifier whose digits are those of `bytes`.
            pub fn from_bytes(bytes: [u8; $bytes]) -> Self {
                Self(hex(&bytes).into())
            }
        }
    };
}

hex_identifier!(Epoch, 32);
hex_identifier!(EventEpoch, 16);
hex_identifier!(Sha256Hex, 32);

/// `bytes` as lowercase hex digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// `^[A-Za-z0-9_-]{1,128}$`.
pub fn is_id(value: &str) -> bool {
    value.len() <= ID_MAX_BYTES && is_alias(value)
}

/// `^[A-Za-z0-9_-]+$`.
pub(crate) fn is_alias(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn is_hex(value: &str, digits: usize) -> bool {
    value.len() == digits && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_command_name(value: &str) -> bool {
    value.len() <= 64
        && value.starts_with(|first: char| first.is_ascii_alphanumeric())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'.' | b'-'))
}
