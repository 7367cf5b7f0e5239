//! Addresses of a node: http(s), no user info, no query, no fragment.
//!
//! A strict parser of our own: the `url` crate brings Unicode host tables that would cost more in a browser than the
//! rest of the driver's protocol code, and a node's address needs none of them.

use std::fmt;

/// Why a text is not an address of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEndpoint {
    /// Another scheme than http and https, or none.
    #[error("an endpoint must start with http:// or https://")]
    Scheme,
    /// A user name or password in the address.
    #[error("an endpoint must not hold a user name or password; give them apart from it")]
    UserInfo,
    /// A query or a fragment.
    #[error("an endpoint must not have a query or fragment")]
    QueryOrFragment,
    /// No host, or characters that no host or path has.
    #[error("the host, port or path of the endpoint is not valid (international host names go in their xn-- form)")]
    Syntax,
    /// The reference leads to another origin.
    #[error("the address leads to another origin than the node's")]
    Origin,
}

/// A checked absolute address. Scheme and host are lower case, a default port is dropped, and the path starts with `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    text: Box<str>,
    path_at: usize,
}

impl Endpoint {
    /// Parses an absolute address.
    ///
    /// # Errors
    /// The first rule that the text breaks.
    ///
    /// ```
    /// use cells_protocol::endpoint::{Endpoint, InvalidEndpoint};
    /// assert_eq!(Endpoint::parse("HTTP://Node:80")?.as_str(), "http://node/");
    /// assert_eq!(Endpoint::parse("http://u:p@node/"), Err(InvalidEndpoint::UserInfo));
    /// # Ok::<(), InvalidEndpoint>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidEndpoint> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidEndpoint::Scheme)?;
        let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => ("http", "80"),
            "https" => ("https", "443"),
            _ => return Err(InvalidEndpoint::Scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(InvalidEndpoint::QueryOrFragment);
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if authority.contains('@') {
            return Err(InvalidEndpoint::UserInfo);
        }
        let (host, port) = split_port(authority)?;
        check_host(host)?;
        if !path.bytes().all(is_path_byte) {
            return Err(InvalidEndpoint::Syntax);
        }
        let mut origin = format!("{scheme}://{}", host.to_ascii_lowercase());
        if let Some(port) = port.filter(|port| *port != default_port) {
            origin.push(':');
            origin.push_str(port);
        }
        let path_at = origin.len();
        origin.push_str(&remove_dot_segments(path));
        Ok(Self { text: origin.into(), path_at })
    }

    /// Resolves `reference` (absolute, or relative to this address) and keeps the origin.
    ///
    /// # Errors
    /// [`InvalidEndpoint::Origin`] when it leads elsewhere, else as [`Endpoint::parse`].
    pub fn resolve(&self, reference: &str) -> Result<Self, InvalidEndpoint> {
        let resolved = if reference.contains("://") {
            Self::parse(reference)?
        } else if reference.starts_with("//") {
            return Err(InvalidEndpoint::Origin);
        } else if reference.starts_with('/') {
            Self::parse(&format!("{}{reference}", self.origin()))?
        } else {
            let directory = &self.text[..=self.text.rfind('/').unwrap_or(self.path_at)];
            Self::parse(&format!("{directory}{reference}"))?
        };
        if resolved.origin() == self.origin() { Ok(resolved) } else { Err(InvalidEndpoint::Origin) }
    }

    /// The address with one trailing slash, so that references resolve below it.
    #[must_use]
    pub fn directory(&self) -> Self {
        let trimmed = self.without_trailing_slash();
        Self { text: format!("{trimmed}/").into(), path_at: self.path_at }
    }

    /// The address as text, without trailing slashes.
    pub fn without_trailing_slash(&self) -> &str {
        self.text.trim_end_matches('/')
    }

    /// The address as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> &str {
        &self.text[..self.path_at]
    }

    /// The path, starting with `/`.
    pub fn path(&self) -> &str {
        &self.text[self.path_at..]
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.text)
    }
}

/// Appends `value` to `query` as one form-encoded parameter.
pub fn push_query(query: &mut String, name: &str, value: &str) {
    query.push(if query.contains('?') { '&' } else { '?' });
    query.push_str(name);
    query.push('=');
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => query.push(char::from(byte)),
            _ => {
                query.push('%');
                query.push(char::from(HEX_DIGITS[usize::from(byte >> 4)]));
                query.push(char::from(HEX_DIGITS[usize::from(byte & 15)]));
            }
        }
    }
}

const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";

fn split_port(authority: &str) -> Result<(&str, Option<&str>), InvalidEndpoint> {
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after_host..].find(':') {
        None => Ok((authority, None)),
        Some(at) => {
            let (host, port) = authority.split_at(after_host + at);
            let port = &port[1..];
            match port.parse::<u16>() {
                Ok(number) if number > 0 && !port.starts_with(['+', '0']) => Ok((host, Some(port))),
                _ => Err(InvalidEndpoint::Syntax),
            }
        }
    }
}

fn check_host(host: &str) -> Result<(), InvalidEndpoint> {
    let valid = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.len() <= 253
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
        }
    };
    if valid { Ok(()) } else { Err(InvalidEndpoint::Syntax) }
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
}

fn remove_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_normalises_and_refuses() {
        for (text, expected) in [
            ("http://127.0.0.1:8787", Ok("http://127.0.0.1:8787/")),
            ("http://../@", Ok("http://../@")),
            ("https://Node.example:443/a/../b/", Ok("https://node.example/b/")),
            ("http://[::1]:9/mcp", Ok("http://[::1]:9/mcp")),
            ("ftp://node", Err(InvalidEndpoint::Scheme)),
            ("node:8787", Err(InvalidEndpoint::Scheme)),
            ("http://a@node", Err(InvalidEndpoint::UserInfo)),
            ("http://node/?q", Err(InvalidEndpoint::QueryOrFragment)),
            ("http://node#x", Err(InvalidEndpoint::QueryOrFragment)),
            ("http://", Err(InvalidEndpoint::Syntax)),
            ("http://node:0", Err(InvalidEndpoint::Syntax)),
            ("http://node:99999", Err(InvalidEndpoint::Syntax)),
            ("http://no de", Err(InvalidEndpoint::Syntax)),
            ("http://node/a\nb", Err(InvalidEndpoint::Syntax)),
        ] {
            assert_eq!(Endpoint::parse(text).as_ref().map(Endpoint::as_str), expected.as_ref().copied(), "{text}");
        }
    }

    #[test]
    fn resolve_keeps_the_origin() {
        let mcp = Endpoint::parse("http://node:1/cells/mcp").unwrap();
        for (reference, expected) in [
            ("./", Ok("http://node:1/cells/")),
            ("../x", Ok("http://node:1/x")),
            ("/mcp", Ok("http://node:1/mcp")),
            ("v1/events", Ok("http://node:1/cells/v1/events")),
            ("http://node:1/", Ok("http://node:1/")),
            ("http://node:2/", Err(InvalidEndpoint::Origin)),
            ("https://node:1/", Err(InvalidEndpoint::Origin)),
            ("//evil/", Err(InvalidEndpoint::Origin)),
        ] {
            assert_eq!(
                mcp.resolve(reference).as_ref().map(Endpoint::as_str),
                expected.as_ref().copied(),
                "{reference}"
            );
        }
    }
}
