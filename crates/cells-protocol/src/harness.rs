//! Agents: profiles, sessions, history and what mutations return (`harness.md` §3–6, `cells-0.4.md` §3).

mod attachments;
mod history;
mod profiles;
mod results;
mod sessions;

pub use attachments::{HarnessAttachment, check_attachments};
pub use history::{HistoryPage, Turn};
pub use profiles::{AttachmentKind, HarnessCapabilities, Profile, Profiles, Workspace};
pub use results::{SessionsDeleted, TurnStarted};
pub use sessions::{Session, SessionInfo, SessionPage, TurnResult, harness_archive_allowed};
