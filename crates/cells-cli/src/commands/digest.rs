use cells_native::cells_driver::DigestRole;
use clap::Args;

use crate::failure::{Exit, Failure};
use crate::node::SessionArgs;
use crate::output::{print, print_json, warn};
use crate::text::visible;

/// Tell what users asked and the agent answered in a session, oldest first, without reasoning and tools.
#[derive(Debug, Args)]
pub(crate) struct Digest {
    #[command(flatten)]
    pub(super) at: SessionArgs,
}

impl Digest {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let digest = at.harness.load_digest(&at.profile_id, &at.session_id, at.node.options()).await?;
        if self.at.node.json {
            print_json(&digest)?;
            return Ok(Exit::Done);
        }
        for entry in &digest.entries {
            let text = visible(&entry.text);
            match entry.role {
                DigestRole::User => print(&format!("> {}\n\n", text.replace('\n', "\n> ")))?,
                DigestRole::Assistant => print(&format!("{text}\n\n"))?,
            }
        }
        if !digest.is_complete() {
            warn("this is not all: prompts of unknown origin are left out, or long texts are cut");
        }
        Ok(Exit::Done)
    }
}
