//! What the verbs that change files share.

use std::future::Future;

use cells_native::cells_driver::{
    Error, ErrorKind, FileCommitted, FileConnection, FileKind, FileMutationOptions, FileMutations, FileReceipt,
    FileStat, FileStorage, OperationId, OperationOptions, Outcome, ReplaceCondition, Upload, host,
};
use futures::future::join_all;

use crate::failure::{Exit, Failure};
use crate::node::{Node, NodeArgs};
use crate::output::note;
use crate::remote_path::RemotePath;
use crate::under_way::UnderWay;

/// A node on which a verb changes files.
pub(crate) struct Writer {
    /// The node. Ctrl-C ends its calls.
    pub(crate) node: Node,
    under_way: UnderWay,
    json: bool,
}

/// An export that may be changed.
#[derive(Clone)]
pub(crate) struct Writable<'a> {
    writer: &'a Writer,
    /// The export.
    pub(crate) storage: FileStorage,
    mutations: FileMutations,
}

/// A write that happened.
pub(crate) struct Written {
    /// Names the write.
    pub(crate) operation_id: OperationId,
    /// The new file, if it is one and the node described it.
    pub(crate) stat: Option<FileStat>,
}

impl Writer {
    /// Asks nothing.
    pub(crate) fn new(args: &NodeArgs, under_way: UnderWay) -> Result<Self, Failure> {
        let node = args.connect()?.cancelled_by(under_way.cancellation());
        Ok(Self { node, under_way, json: args.json })
    }

    /// Nothing more is started when this fails.
    ///
    /// # Errors
    /// After Ctrl-C.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.under_way.check()
    }

    /// Whether Ctrl-C was pressed.
    pub(crate) fn is_stopped(&self) -> bool {
        self.under_way.is_stopped()
    }

    /// The export of each path.
    ///
    /// # Errors
    /// As [`Writer::export`], and nothing is changed then.
    pub(crate) async fn exports(&self, paths: &[RemotePath]) -> Result<Vec<Writable<'_>>, Failure> {
        let mut exports: Vec<Writable<'_>> = Vec::with_capacity(paths.len());
        for (index, path) in paths.iter().enumerate() {
            let same = paths.iter().take(index).position(|other| other.alias == path.alias);
            exports.push(match same.and_then(|index| exports.get(index)) {
                Some(export) => export.clone(),
                None => self.export(&path.alias).await?,
            });
        }
        Ok(exports)
    }

    /// Opens the export `alias` for writing.
    ///
    /// # Errors
    /// When the export or the credential only allows reading.
    pub(crate) async fn export(&self, alias: &str) -> Result<Writable<'_>, Failure> {
        let storage = self.node.storage(alias).await?;
        let mutations = storage.mutations().cloned();
        let mutations = mutations.ok_or_else(|| {
            let line = format!("{alias} is read-only here (EROFS); `cells exports` lists what may be written");
            Failure::new(Exit::AccessDenied, line)
        })?;
        Ok(Writable { writer: self, storage, mutations })
    }
}

impl Node {
    /// Opens the export `alias`.
    pub(crate) async fn storage(&self, alias: &str) -> Result<FileStorage, Failure> {
        let connection = FileConnection::new(self.connection.clone(), alias);
        let about = |error: Error| Failure::from(error).about(alias);
        self.client.file_storage(&connection, self.options()).await.map_err(about)
    }
}

impl Writable<'_> {
    /// Puts `content` in place as the file `path`.
    pub(crate) async fn replace(
        &self,
        path: &RemotePath,
        content: Upload,
        condition: ReplaceCondition,
        progress: host::Progress,
    ) -> Result<Written, Failure> {
        let write = async |mut options: FileMutationOptions| {
            options.progress = Some(progress);
            Ok(written(self.mutations.replace(&path.path, content, condition, options).await?, Some))
        };
        let ended = self.follow(path, write).await;
        ended.map_err(|end| end.told(path, |error| of_new_entry(path, error)))
    }

    /// Makes the directory `path`.
    pub(crate) async fn mkdir(&self, path: &RemotePath) -> Result<Written, Failure> {
        self.make(path).await.map_err(|end| end.told(path, |error| of_new_entry(path, error)))
    }

    /// Makes those of `paths` that do not exist, one after the other, and gives them.
    ///
    /// # Errors
    /// When one of them is something else than a directory.
    pub(crate) async fn make_missing<'a>(&self, paths: &'a [RemotePath]) -> Result<Vec<&'a RemotePath>, Failure> {
        // Asked in one go, which the driver makes few requests of.
        let stats = join_all(paths.iter().map(|path| self.stat(path))).await;
        let mut made = Vec::new();
        for (path, stat) in paths.iter().zip(stats) {
            let mut there = stat?;
            if there.is_none() {
                self.writer.check()?;
                match self.make(path).await {
                    Ok(_) => {
                        made.push(path);
                        continue;
                    }
                    // Somebody else made it meanwhile.
                    Err(End::Failed(error)) if error.kind() == ErrorKind::AlreadyExists => {
                        there = self.stat(path).await?;
                    }
                    Err(end) => return Err(end.told(path, |error| of_new_entry(path, error))),
                }
            }
            if there.is_none_or(|stat| stat.kind != FileKind::Directory) {
                return Err(Failure::new(Exit::Failed, format!("{path} exists, and is no directory (EEXIST)")));
            }
        }
        Ok(made)
    }

    /// Gives the entry `from` the path `to`.
    pub(crate) async fn rename(&self, from: &RemotePath, to: &RemotePath) -> Result<Written, Failure> {
        let write = async |options| Ok(written(self.mutations.rename(&from.path, &to.path, options).await?, |()| None));
        match self.follow(from, write).await {
            Ok(written) => Ok(written),
            Err(End::Failed(error)) => Err(self.of_rename(from, to, error).await),
            Err(end) => Err(end.told(from, |error| of_entry(from, error))),
        }
    }

    /// Removes the entry `path`.
    pub(crate) async fn remove(&self, path: &RemotePath) -> Result<Written, Failure> {
        let write = async |options| Ok(written(self.mutations.remove(&path.path, options).await?, |()| None));
        self.follow(path, write).await.map_err(|end| end.told(path, |error| of_entry(path, error)))
    }

    /// Options of a call that changes nothing.
    pub(crate) fn options(&self) -> OperationOptions {
        self.writer.node.options()
    }

    /// What `path` is; nothing if it does not exist.
    pub(crate) async fn stat(&self, path: &RemotePath) -> Result<Option<FileStat>, Failure> {
        let stat = self.storage.files().stat(&path.path, self.options()).await;
        stat.map_err(|error| Failure::path(error, path))
    }

    async fn make(&self, path: &RemotePath) -> Result<Written, End> {
        let write = async |options| Ok(written(self.mutations.mkdir(&path.path, options).await?, |_| None));
        self.follow(path, write).await
    }

    /// Follows a write of `path` to its end. When the reply is lost, the node is asked.
    async fn follow<W: Future<Output = Result<Written, Error>>>(
        &self,
        path: &RemotePath,
        write: impl FnOnce(FileMutationOptions) -> W,
    ) -> Result<Written, End> {
        let Writer { node, under_way, json } = self.writer;
        let ask = node.operation_commands(&path.alias);
        let number = under_way.begin();
        let (sent, left) = (under_way.clone(), format!("{path}: left; whether it is written is unknown"));
        let command = ask.clone();
        let options = FileMutationOptions {
            operation: node.options(),
            on_dispatch: Some(Box::new(move |recovery| {
                let left = Failure::new(Exit::Interrupted, left).with_ask(command(&recovery.operation_id));
                sent.sent(number, left);
            })),
            ..FileMutationOptions::default()
        };
        let result = match write(options).await {
            Err(error) if error.outcome() == Some(Outcome::Unknown) => self.settle(error, ask).await,
            Err(error) => Err(End::Failed(error)),
            Ok(written) => Ok(written),
        };
        under_way.ended(number);
        if result.is_ok() && under_way.is_stopped() && !json {
            note(&format!("{path}: done before it could be stopped"));
        }
        result
    }

    /// Asks how a write ended of which the reply was lost. One that was stopped is not asked for again: the driver did.
    async fn settle(&self, error: Error, ask: impl Fn(&OperationId) -> String) -> Result<Written, End> {
        let Writer { node, under_way, .. } = self.writer;
        let receipt = match error.file_recovery() {
            Some(recovery) if !under_way.is_stopped() => self.storage.settle(recovery, node.options()).await.ok(),
            _ => None,
        };
        let Some(id) = error.operation_id().cloned() else { return Err(End::Failed(error)) };
        match receipt {
            Some(FileReceipt::Committed { result }) => Ok(Written { operation_id: id, stat: result }),
            Some(FileReceipt::NotCommitted { code }) => Err(End::Refused(code)),
            Some(FileReceipt::Unknown { .. } | FileReceipt::Running) | None => Err(End::Unknown(error, ask(&id))),
        }
    }

    /// The failure to move: whether the old name is to blame, or the new one.
    async fn of_rename(&self, from: &RemotePath, to: &RemotePath, error: Error) -> Failure {
        match error.kind() {
            ErrorKind::AlreadyExists => of_entry(to, error),
            ErrorKind::NotFound | ErrorKind::NotADirectory => match self.stat(from).await {
                Ok(Some(_)) => of_new_entry(to, error),
                Ok(None) | Err(_) => of_entry(from, error),
            },
            _ => of_entry(from, error),
        }
    }
}

/// How a write ended that is not known to have happened.
enum End {
    /// It did not happen.
    Failed(Error),
    /// The reply was lost, and the node says that it did not happen, with this code.
    Refused(String),
    /// Not known. The command asks.
    Unknown(Error, String),
}

impl End {
    fn told(self, path: &RemotePath, of_error: impl FnOnce(Error) -> Failure) -> Failure {
        match self {
            Self::Failed(error) => of_error(error),
            Self::Refused(code) => {
                let line = format!("{path}: nothing has changed: the connection broke, and the node says {code}");
                Failure::new(Exit::Failed, line)
            }
            Self::Unknown(error, ask) => {
                let why = match error.kind() {
                    ErrorKind::Cancelled => format!("stopped ({})", error.kind()),
                    _ => error.to_string(),
                };
                Failure::driver(error, format!("{path}: {why}; whether it happened is unknown")).with_ask(ask)
            }
        }
    }
}

fn written<T>(committed: FileCommitted<T>, stat: impl FnOnce(T) -> Option<FileStat>) -> Written {
    Written { operation_id: committed.operation_id, stat: stat(committed.value) }
}

/// The failure to make the entry `path`: what is missing is the directory above it.
fn of_new_entry(path: &RemotePath, error: Error) -> Failure {
    let above = path.parent();
    match (error.kind(), above) {
        (ErrorKind::NotFound, Some(above)) => Failure::path(error, &above),
        (ErrorKind::NotADirectory, Some(above)) => Failure::path(error, &above),
        _ => of_entry(path, error),
    }
}

/// The failure to change the entry `path`.
fn of_entry(path: &RemotePath, error: Error) -> Failure {
    let code = error.kind();
    let line = match (error.remote_code(), code, error.status()) {
        (Some("ECONFLICT"), ..) => format!("{path} exists, or has changed meanwhile ({code})"),
        (Some(_), ErrorKind::AlreadyExists, _) => format!("{path} exists already ({code})"),
        (Some(_), ErrorKind::NotEmpty, _) => format!("{path} is not empty ({code})"),
        (_, ErrorKind::AccessDenied, Some(403)) => format!(
            "{path} may not be changed: the credential does not allow it, or the node may not, or it lies behind a \
             link ({code})"
        ),
        (_, ErrorKind::ReadOnly, _) => {
            format!("{path} may not be changed: it is read-only; `cells exports` lists what may be written ({code})")
        }
        (None, ErrorKind::Cancelled, _) => format!("{path}: stopped, and nothing has changed ({code})"),
        _ => return Failure::path(error, path),
    };
    Failure::driver(error, line)
}
