use cells_native::cells_driver::FileKind;
use clap::Args;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::print_json;
use crate::remote_path::RemotePath;
use crate::under_way::UnderWay;
use crate::writes::Writer;

/// Give a file or a directory another name in its export.
///
/// Nothing is overwritten: the new name must be free.
#[derive(Debug, Args)]
pub(crate) struct Mv {
    /// The name now, such as notes/a.md
    #[arg(value_name = "ALIAS/FROM")]
    from: RemotePath,
    /// The new name, in the same export; an existing directory gets it under its own name
    #[arg(value_name = "ALIAS/TO")]
    to: RemotePath,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Mv {
    pub(super) async fn run(self, under_way: UnderWay) -> Result<Exit, Failure> {
        let Self { from, mut to, node } = self;
        if from.alias != to.alias {
            return Err(Failure::usage("a file keeps its export; copy it with `cells get` and `cells put`"));
        }
        let name = from.name().ok_or_else(|| Failure::usage(format!("{from} is an export, and keeps its name")))?;
        let writer = Writer::new(&node, under_way)?;
        let export = writer.export(&from.alias).await?;
        if export.stat(&to).await?.is_some_and(|stat| stat.kind == FileKind::Directory) {
            to = to.child(name);
        }
        if to.path.strip_prefix(&from.path).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Failure::usage(format!("{from} cannot be moved into itself")));
        }
        let moved = export.rename(&from, &to).await?;
        if node.json {
            let (from, to) = (from.to_string(), to.to_string());
            print_json(&json!({ "from": from, "to": to, "operationId": moved.operation_id.as_str() }))?;
        }
        Ok(Exit::Done)
    }
}
