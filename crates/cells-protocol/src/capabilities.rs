//! `GET /v1/capabilities` and `GET /v1/exports` (`files-http.md` §3).

use serde::{Deserialize, Serialize};

use crate::discovery::ReceiptsAnnouncement;
use crate::ids::{Alias, ServerId};
use crate::json::{Malformed, Object};
use crate::text::has_twice;

/// What the HTTP side of a node offers. Descriptive, never a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCapabilities {
    /// Always 1.
    pub version: u64,
    /// Identity of the installation.
    pub server_id: Option<ServerId>,
    /// Epoch of the node's processes, new at every start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_epoch: Option<ServerId>,
    /// What the principal may do with files.
    pub files: FileCapabilities,
    /// Object sync.
    pub sync: SyncCapabilities,
    /// Commands on the node.
    pub process: ProcessCapabilities,
    /// Terminals.
    pub terminal: TerminalCapabilities,
    /// Harness control over MCP; absent on old nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<HarnessEndpoint>,
    /// How processes are separated from the host.
    pub execution_model: ExecutionModel,
    /// Who else can change files while a process runs.
    pub workspace_consistency: WorkspaceConsistency,
    /// How a read-only mount is enforced.
    pub read_only_enforcement: ReadOnlyEnforcement,
    /// How a process sees paths.
    pub path_model: PathModel,
}

/// What the principal may do with files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FileCapabilities {
    /// At least one export is visible.
    pub read: bool,
    /// At least one export may be written.
    pub write: bool,
    /// SeqFiles; absent on old nodes, and when it is not what it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<SeqCapabilities>,
    /// How receipts of writes are kept; absent on nodes that keep them in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipts: Option<ReceiptsAnnouncement>,
}

impl FileCapabilities {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            read: object.boolean("read")?,
            write: object.boolean("write")?,
            seq: object.lenient("seq", SeqCapabilities::read)?,
            receipts: object.lenient("receipts", ReceiptsAnnouncement::read)?,
        })
    }

    /// Whether SeqFiles can be read and changed.
    pub fn has_seq(&self) -> bool {
        self.seq.as_ref().is_some_and(|seq| seq.version == 1)
    }

    /// Whether the receipt of a write can be asked for after a restart of the node.
    pub fn has_durable_receipts(&self) -> bool {
        self.receipts.as_ref().is_some_and(|receipts| receipts.version == 1 && receipts.durable)
    }
}

/// SeqFiles, as far as this document tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeqCapabilities {
    /// 1 = `files-http.md` §7.
    pub version: u64,
    /// A SeqFile is an SQLite database.
    pub sqlite: bool,
    /// What one transaction can change, for example `file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_scope: Option<String>,
}

impl SeqCapabilities {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            version: object.integer("version")?,
            sqlite: object.flag("sqlite")?,
            transaction_scope: object.optional_string("transactionScope")?,
        })
    }
}

/// Object sync, as far as this document tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncCapabilities {
    /// Enabled and healthy.
    pub push: bool,
    /// Version of the sync protocol; null without sync.
    pub protocol_version: Option<u64>,
    /// Reference to the sync capabilities, relative to the node's root; null without sync.
    pub discovery: Option<String>,
}

impl SyncCapabilities {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            push: object.boolean("push")?,
            protocol_version: object.optional_integer("protocolVersion")?,
            discovery: object.optional_string("discovery")?,
        })
    }
}

/// Commands on the node (`files-http.md` §6), as far as this document tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessCapabilities {
    /// Processes can be started.
    pub exec: bool,
    /// Live output; absent on nodes without it, and when it is not what it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<ProcessOutputCapabilities>,
}

impl ProcessCapabilities {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        let output = |output: &mut Object<'_>| Ok(ProcessOutputCapabilities { version: output.integer("version")? });
        Ok(Self { exec: object.boolean("exec")?, output: object.lenient("output", output)? })
    }

    /// Whether a start may carry `keepOutput`, and the output route answers.
    pub fn has_output(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.version == 1)
    }
}

/// Live output of processes, as far as this document tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessOutputCapabilities {
    /// 1 = `GET /v1/processes/{epoch}/{requestId}/output`.
    pub version: u64,
}

/// Terminals, which this driver does not use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TerminalCapabilities {
    /// Pseudo-terminals can be opened.
    pub pty: bool,
}

/// Where harness control is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessEndpoint {
    /// A harness profile is configured.
    pub enabled: bool,
    /// MCP revision of the endpoint.
    pub protocol_version: Option<String>,
    /// Reference to the MCP endpoint, relative to the node's root.
    pub endpoint: Option<String>,
}

impl HarnessEndpoint {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            enabled: object.flag("enabled")?,
            protocol_version: object.optional_string("protocolVersion")?,
            endpoint: object.optional_string("endpoint")?,
        })
    }
}

/// How processes are separated from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecutionModel {
    /// No processes.
    None,
    /// On the host itself; the callers are trusted.
    TrustedCooperativeHost,
    /// In a sandbox.
    Sandbox,
}

impl ExecutionModel {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("trusted-cooperative-host", Self::TrustedCooperativeHost), ("sandbox", Self::Sandbox)];
}

/// Who else can change files while a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkspaceConsistency {
    /// No processes.
    None,
    /// Everybody who cooperates.
    Cooperative,
    /// Nobody.
    Isolated,
}

impl WorkspaceConsistency {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("cooperative", Self::Cooperative), ("isolated", Self::Isolated)];
}

/// How a read-only mount is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadOnlyEnforcement {
    /// Not at all.
    None,
    /// As far as the host allows.
    BestEffort,
    /// By the kernel.
    KernelEnforced,
}

impl ReadOnlyEnforcement {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("best-effort", Self::BestEffort), ("kernel-enforced", Self::KernelEnforced)];
}

/// How a process sees paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathModel {
    /// No processes.
    None,
    /// As the host's own.
    HostMapped,
    /// Below a root of their own.
    VirtualRoot,
}

impl PathModel {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("host-mapped", Self::HostMapped), ("virtual-root", Self::VirtualRoot)];
}

impl ServerCapabilities {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            version: object.integer("version")?,
            server_id: object.optional_id("serverId")?,
            process_epoch: object.optional_id("processEpoch")?,
            files: FileCapabilities::read(&mut object.object("files")?)?,
            sync: SyncCapabilities::read(&mut object.object("sync")?)?,
            process: ProcessCapabilities::read(&mut object.object("process")?)?,
            terminal: TerminalCapabilities { pty: object.object("terminal")?.boolean("pty")? },
            harness: match object.optional_object("harness")? {
                Some(mut harness) => Some(HarnessEndpoint::read(&mut harness)?),
                None => None,
            },
            execution_model: object.word("executionModel", ExecutionModel::WORDS)?,
            workspace_consistency: object.word("workspaceConsistency", WorkspaceConsistency::WORDS)?,
            read_only_enforcement: object.word("readOnlyEnforcement", ReadOnlyEnforcement::WORDS)?,
            path_model: object.word("pathModel", PathModel::WORDS)?,
        })
    }

    /// Parses and validates the document.
    ///
    /// # Errors
    /// [`Malformed`] when a member is missing or wrong, or members contradict each other.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        const WHAT: &str = "the capabilities document";
        let document = Self::read(&mut Object::parse(WHAT, bytes)?)?;
        if document.version != 1 {
            return Err(Malformed::new(WHAT, "has another version than 1"));
        }
        let anonymous_exec = document.server_id.is_none()
            || document.execution_model == ExecutionModel::None
            || document.workspace_consistency == WorkspaceConsistency::None
            || document.path_model == PathModel::None;
        if document.process.exec && anonymous_exec {
            return Err(Malformed::new(WHAT, "offers processes without saying how they run"));
        }
        if document.terminal.pty && !document.process.exec {
            return Err(Malformed::new(WHAT, "offers terminals without processes"));
        }
        Ok(document)
    }

    /// What a node without this route offers, judged by its exports: files and nothing else.
    pub fn files_only(exports: &Exports) -> Self {
        Self {
            version: 1,
            server_id: None,
            process_epoch: None,
            files: FileCapabilities {
                read: true,
                write: exports.exports.iter().any(|export| export.access == Access::Rw),
                ..FileCapabilities::default()
            },
            sync: SyncCapabilities { push: false, protocol_version: None, discovery: None },
            process: ProcessCapabilities { exec: false, output: None },
            terminal: TerminalCapabilities { pty: false },
            harness: None,
            execution_model: ExecutionModel::None,
            workspace_consistency: WorkspaceConsistency::None,
            read_only_enforcement: ReadOnlyEnforcement::None,
            path_model: PathModel::None,
        }
    }
}

/// Reply of `GET /v1/exports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exports {
    /// Always 1.
    pub version: u64,
    /// The exports that the principal may see, ordered by alias.
    pub exports: Vec<Export>,
}

/// One directory that the node serves (`files-http.md` §3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    /// Its name.
    pub alias: Alias,
    /// What the principal may do with it.
    pub access: Access,
    /// `source` for plain names; anything else, or nothing, forbids writes.
    pub name_semantics: Option<String>,
    /// Files have revisions that follow every change, so that writes can be made conditional. Absent = false.
    pub strong_revision: bool,
}

impl Export {
    /// Reads one element of the list.
    ///
    /// # Errors
    /// [`Malformed`] when a member is wrong.
    pub fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            alias: object.id("alias")?,
            access: object.word_or("access", Access::WORDS, Access::Ro)?,
            name_semantics: object.optional_string("nameSemantics")?,
            strong_revision: object.flag("strongRevision")?,
        })
    }

    /// Whether writes may be sent: `rw`, strong revisions and plain names (`files-http.md` §3.2).
    pub fn allows_writes(&self) -> bool {
        self.access == Access::Rw && self.strong_revision && self.name_semantics.as_deref() == Some("source")
    }
}

/// What may be done with an export. Absent = read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read-only.
    #[default]
    Ro,
    /// Read and write.
    Rw,
}

impl Access {
    const WORDS: &'static [(&'static str, Self)] = &[("ro", Self::Ro), ("rw", Self::Rw)];
}

impl Exports {
    fn read(object: &mut Object<'_>) -> Result<Self, Malformed> {
        Ok(Self { version: object.integer("version")?, exports: object.objects("exports", Export::read)? })
    }

    /// Parses and validates the list.
    ///
    /// # Errors
    /// [`Malformed`] when a member is wrong or an alias stands twice.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        const WHAT: &str = "the list of exports";
        let list = Self::read(&mut Object::parse(WHAT, bytes)?)?;
        if list.version != 1 {
            return Err(Malformed::new(WHAT, "has another version than 1"));
        }
        if has_twice(list.exports.iter().map(|export| export.alias.as_str()).collect()) {
            return Err(Malformed::new(WHAT, "names an alias twice"));
        }
        Ok(list)
    }
}
