//! Agents: profiles, sessions, history and what mutations return (`harness.md` §3–6, `cells-0.4.md` §3).

mod attachments;
mod digest;
mod history;
mod items;
mod metrics;
mod models;
mod native;
mod profiles;
mod recovery;
mod results;
mod search;
mod sessions;
mod usage;

pub use attachments::{HarnessAttachment, check_attachments};
pub use digest::{DigestEntry, DigestPage, DigestRequest, DigestRole};
pub use history::{HistoryPage, SubmissionEvidence, Turn};
pub use items::{CommandItem, HarnessItem, ItemContent, ToolOperation, ToolSummary};
pub use metrics::{ContextMetrics, CostMetrics, CreditMetrics, HarnessMetrics, QuotaMetrics};
pub use models::{HarnessModel, HarnessModelCatalog, HarnessModelSelection, ReasoningEffort};
pub use native::{HarnessQuestion, HarnessRequest, NativeEvent, QuestionOption, RequestKind};
pub use profiles::{AttachmentKind, HarnessCapabilities, Profile, Profiles, Workspace};
pub use recovery::{HarnessExecutionRecovery, LockState, RuntimeState};
pub use results::{SessionsDeleted, TurnStarted, TurnSteered};
pub use search::{HarnessSearchMatch, HarnessSearchMode, HarnessSearchQuery, HarnessSearchResult};
pub use sessions::{Session, SessionInfo, SessionPage, TurnResult, harness_archive_allowed};
pub use usage::{HarnessUsage, HarnessUsageEntry, HarnessUsageTotals, TokenCounts};
