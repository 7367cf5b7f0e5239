/// Why a node did not start, or stopped by itself.
///
/// The text is one line for the person who started the node: what is wrong, where, and what to change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A flag, the configuration, an export, the address or the state directory must be changed first.
    #[error("{0}")]
    Config(String),
    /// The machine failed: a disk, a database, a socket.
    #[error("{0}")]
    Failed(String),
}

impl ServeError {
    /// Exit code of a program that ends with this error: 2 for [`ServeError::Config`], 1 for [`ServeError::Failed`].
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) => 2,
            Self::Failed(_) => 1,
        }
    }
}
