use cells_native::cells_driver::NativeId;
use clap::Args;
use serde_json::json;

use super::managed::mutate;
use crate::failure::{Exit, Failure};
use crate::node::SessionArgs;
use crate::output::{print, print_json};

/// Interrupt the turn that runs in a session; its id is printed. The turn ends soon after.
#[derive(Debug, Args)]
pub(crate) struct Interrupt {
    #[command(flatten)]
    pub(super) at: SessionArgs,
    /// Only if this turn runs [default: whichever runs]
    #[arg(long, value_name = "ID", value_parser = |text: &str| NativeId::new(text))]
    turn: Option<NativeId>,
}

impl Interrupt {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let at = self.at.find().await?;
        let turn_id = match self.turn {
            Some(turn_id) => turn_id,
            None => {
                let session = at.harness.inspect(&at.profile_id, &at.session_id, at.node.options()).await?.session;
                session.active_turn_id.ok_or_else(|| Failure::new(Exit::Failed, "no turn runs in that session"))?
            }
        };
        let (profile_id, session_id) = (&at.profile_id, &at.session_id);
        mutate(&at.node, |options| at.harness.interrupt(profile_id, session_id, &turn_id, options)).await?;
        if self.at.node.json { print_json(&json!({"turnId": turn_id})) } else { print(&format!("{turn_id}\n")) }?;
        Ok(Exit::Done)
    }
}
