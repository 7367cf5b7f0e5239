//! Whether and how processes run.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use crate::ServeError;

/// How the processes of `POST /v1/processes` run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// There are none.
    Off,
    /// In a sandbox where bubblewrap can make one, else on the machine itself.
    #[default]
    Auto,
    /// In a sandbox; a node that cannot make one does not start.
    Sandbox,
    /// On the machine itself, with all rights of the person who started the node.
    Host,
}

impl Execution {
    /// The word in flags and in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Sandbox => "sandbox",
            Self::Host => "host",
        }
    }
}

impl FromStr for Execution {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let choice = [Self::Off, Self::Auto, Self::Sandbox, Self::Host].into_iter().find(|it| it.as_str() == text);
        choice.ok_or_else(|| ServeError::Config(format!("execution `{text}`: write off, auto, sandbox or host")))
    }
}

/// One of the words, or `true` for `auto` and `false` for `off`.
impl<'de> Deserialize<'de> for Execution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Choice {
            Switch(bool),
            Word(String),
        }
        match Choice::deserialize(deserializer)? {
            Choice::Switch(true) => Ok(Self::Auto),
            Choice::Switch(false) => Ok(Self::Off),
            Choice::Word(word) => word.parse().map_err(de::Error::custom),
        }
    }
}
