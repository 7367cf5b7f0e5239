use std::collections::BTreeMap;

use cells_native::cells_driver::{Error, FileConnection, FileStat};
use clap::Args;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::node::NodeArgs;
use crate::output::{print, print_json};
use crate::remote_path::RemotePath;
use crate::table::{Column, Table, number, time};

/// Show what paths are: kind, size, time.
///
/// All paths are asked in one batch. Exit code 4 when one of them does not exist.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// Paths such as notes/today.md or notes:today.md
    #[arg(value_name = "ALIAS/PATH", required = true)]
    paths: Vec<RemotePath>,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Stat {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let node = self.node.connect()?;
        let mut exports = BTreeMap::new();
        let mut calls = Vec::with_capacity(self.paths.len());
        for path in self.paths {
            let files = match exports.get(&path.alias) {
                Some(files) => files,
                None => {
                    let files = node.client.files(&FileConnection::new(node.connection.clone(), &path.alias))?;
                    exports.entry(path.alias.clone()).or_insert(files)
                }
            };
            // The call joins the batch here; what is awaited below is only its result.
            let call = files.stat(&path.path, node.options());
            calls.push((path, call));
        }
        let mut results = Vec::with_capacity(calls.len());
        for (path, call) in calls {
            results.push((path, call.await));
        }
        let exit = exit_of(&results);
        if self.node.json {
            let results: Vec<Value> = results.iter().map(to_json).collect();
            print_json(&json!({"results": results}))?;
        } else {
            print(&table(&results))?;
            for (path, result) in results {
                if let Err(error) = result {
                    Failure::path(error, &path).tell(false);
                }
            }
        }
        Ok(exit)
    }
}

type Answer = (RemotePath, Result<Option<FileStat>, Error>);

fn table(results: &[Answer]) -> String {
    let mut table =
        Table::new([Column::Left("KIND"), Column::Right("SIZE"), Column::Left("MODIFIED"), Column::Left("PATH")]);
    for (path, result) in results {
        let [kind, size, modified] = match result {
            Ok(Some(stat)) => [stat.kind.as_str().to_owned(), number(stat.size), time(stat.modified_at)],
            Ok(None) => ["missing", "-", "-"].map(str::to_owned),
            Err(_) => ["error", "-", "-"].map(str::to_owned),
        };
        table.push([kind, size, modified, path.to_string()]);
    }
    table.render()
}

fn to_json((path, result): &Answer) -> Value {
    let path = path.to_string();
    match result {
        Ok(stat) => json!({"path": path, "stat": stat}),
        Err(error) => json!({"path": path, "error": {"code": error.kind().as_str(), "message": error.to_string()}}),
    }
}

/// The first failure decides, else a missing path.
fn exit_of(results: &[Answer]) -> Exit {
    let failure = results.iter().find_map(|(_, result)| result.as_ref().err());
    match failure {
        Some(error) => Failure::from(error.clone()).exit(),
        None if results.iter().any(|(_, result)| matches!(result, Ok(None))) => Exit::NotFound,
        None => Exit::Done,
    }
}
