//! What a profile must announce before a call is sent (`cells-0.4.md` §0.2).

use cells_protocol::harness::HarnessCapabilities;
use cells_protocol::ids::ProfileId;

use super::reads::{known_profile, not_offered};
use crate::budget::Budget;
use crate::error::Result;
use crate::node::Link;

/// Something that not every profile can do.
#[derive(Clone, Copy)]
pub(super) struct Feature {
    /// What errors call it.
    pub(super) name: &'static str,
    /// Whether a profile announces it.
    pub(super) is_offered: fn(&HarnessCapabilities) -> bool,
}

impl Feature {
    /// Fails with [`not_offered`] unless the profile announces it. Asks only for profiles that are not known.
    pub(super) async fn check(
        self,
        link: &Link,
        operation: &'static str,
        profile_id: &ProfileId,
        budget: &Budget,
    ) -> Result<()> {
        let profile = budget.run(operation, known_profile(link, operation, profile_id)).await?;
        if (self.is_offered)(&profile.capabilities) {
            Ok(())
        } else {
            Err(not_offered(operation, profile_id, self.name))
        }
    }
}
