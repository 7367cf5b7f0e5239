//! A path on a node, as it is typed.

use std::fmt;
use std::str::FromStr;

/// `ALIAS/PATH` or `ALIAS:PATH`: a path of the export ALIAS. `ALIAS` alone is the export itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemotePath {
    /// The export.
    pub(crate) alias: String,
    /// The path in the export; empty for the export itself.
    pub(crate) path: String,
}

impl RemotePath {
    /// The entry `name` of this directory.
    pub(crate) fn child(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) };
        Self { alias: self.alias.clone(), path }
    }

    /// The directory in which it is; nothing for the export itself.
    pub(crate) fn parent(&self) -> Option<Self> {
        let path = match self.path.rsplit_once('/') {
            Some((above, _)) => above.to_owned(),
            None if self.path.is_empty() => return None,
            None => String::new(),
        };
        Some(Self { alias: self.alias.clone(), path })
    }

    /// Its last name; nothing for the export itself.
    pub(crate) fn name(&self) -> Option<&str> {
        self.path.rsplit('/').next().filter(|name| !name.is_empty())
    }
}

impl FromStr for RemotePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (alias, path) = text.split_once(['/', ':']).unwrap_or((text, ""));
        let is_alias = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if alias.is_empty() || !alias.bytes().all(is_alias) {
            return Err("a path is ALIAS/PATH or ALIAS:PATH, for example notes/today.md; \
                        `cells exports` lists the aliases"
                .to_owned());
        }
        Ok(Self { alias: alias.to_owned(), path: path.strip_suffix('/').unwrap_or(path).to_owned() })
    }
}

impl fmt::Display for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.alias),
            path => write!(f, "{}/{path}", self.alias),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_as_people_type_them() {
        for (text, expected) in [
            ("notes", Some(("notes", "", "notes"))),
            ("notes/", Some(("notes", "", "notes"))),
            ("notes:", Some(("notes", "", "notes"))),
            ("notes/a/b.md", Some(("notes", "a/b.md", "notes/a/b.md"))),
            ("notes:a/b.md", Some(("notes", "a/b.md", "notes/a/b.md"))),
            ("notes/a/", Some(("notes", "a", "notes/a"))),
            ("notes/2024:Q1", Some(("notes", "2024:Q1", "notes/2024:Q1"))),
            ("", None),
            ("/etc/passwd", None),
            ("my notes/a", None),
            ("./a", None),
        ] {
            let parsed = text.parse::<RemotePath>().ok();
            let shown = parsed.as_ref().map(ToString::to_string);
            let parts = parsed.as_ref().zip(shown.as_deref());
            let parts = parts.map(|(path, shown)| (path.alias.as_str(), path.path.as_str(), shown));
            assert_eq!(parts, expected, "{text}");
        }
    }
}
